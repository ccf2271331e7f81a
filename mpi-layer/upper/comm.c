/* comm.c - see comm.h. */
#include "mpi-layer/upper/comm.h"

#include <stdlib.h>
#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/attr.h"
#include "mpi-layer/upper/collective.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/meet.h"
#include "mpi-layer/upper/request.h"

#define WORLD_ID 1
#define SELF_ID 2
#define ACKS_ID 3

static struct comm *first, **end = &first; /* all communicators */
static void *private_world, *private_self, *private_end; /* real handles, made by every launch */
static MPI_Comm acks;
static uint32_t endings; /* communicators that are ending */
static uint32_t free_slots[1 << 16];       /* slots given back, reused first */
static uint32_t free_slot_count;

struct comm *comm_world(void)
{
    return ((struct handle *)(void *)MPI_COMM_WORLD)->record;
}

struct comm *comm_first(void)
{
    return first;
}

void *comm_private_world(void)
{
    return private_world;
}

void *comm_private_self(void)
{
    return private_self;
}

MPI_Comm comm_acks(void)
{
    return acks;
}

void *comm_private_end(void)
{
    return private_end;
}

struct comm *comm_by_id(uint64_t id)
{
    struct comm *c = first;
    while (c && c->id != id)
        c = c->next;
    return c;
}

/* Finalizer of MurmurHash3 (Appleby): every input bit changes every output bit with probability 1/2. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}

static uint64_t make_id(uint64_t parent, uint64_t creation, uint64_t leader)
{
    uint64_t id = mix(mix(mix(parent) + creation) + leader);
    return id > ACKS_ID ? id : id + ACKS_ID + 1;
}

static void take_slot(struct comm *c)
{
    struct control *control = half_control();
    c->slot = free_slot_count ? free_slots[--free_slot_count] : control->slots;
    control->version++;
    control->clocks[c->slot].seq = c->seq;
    control->clocks[c->slot].comm = c->id;
    if (c->slot >= control->slots)
        control->slots = c->slot + 1;
    control->version++;
}

static void give_slot(struct comm *c)
{
    struct control *control = half_control();
    control->version++;
    control->clocks[c->slot].comm = 0;
    control->version++;
    if (free_slot_count < sizeof free_slots / sizeof free_slots[0])
        free_slots[free_slot_count++] = c->slot;
}

/* World ranks of a real group's members; NULL: out of memory. The group is freed. */
static int *members_of(void *group, int size)
{
    void *world_group = NULL;
    int *own = arena_alloc((size_t)size * sizeof *own + 1), *world = arena_alloc((size_t)size * sizeof *world + 1);
    for (int i = 0; own && i < size; i++)
        own[i] = i;
    if (own && world) {
        lower_MPI_Comm_group(api_real(MPI_COMM_WORLD), &world_group);
        lower_MPI_Group_translate_ranks(group, size, own, world_group, world);
        lower_MPI_Group_free(&world_group);
    }
    lower_MPI_Group_free(&group);
    arena_free(own);
    return world;
}

static void find_members(struct comm *c, void *real)
{
    void *group = NULL;
    int is_inter = 0;
    lower_MPI_Comm_test_inter(real, &is_inter);
    lower_MPI_Comm_group(real, &group);
    if (is_inter) {
        lower_MPI_Comm_size(real, &c->local_size);
        c->local = members_of(group, c->local_size);
        lower_MPI_Comm_remote_size(real, &c->size);
        lower_MPI_Comm_remote_group(real, &group);
    } else {
        lower_MPI_Comm_size(real, &c->size);
    }
    c->world = members_of(group, c->size);
}

static void record_free(struct comm *c)
{
    arena_free(c->world);
    arena_free(c->local);
    arena_free(c->peers);
    arena_free(c);
}

static struct comm *record_new(void *real)
{
    struct comm *c = arena_alloc(sizeof *c);
    if (!c)
        return NULL;
    lower_MPI_Comm_rank(real, &c->rank);
    find_members(c, real);
    c->peers = arena_alloc((size_t)c->size * sizeof *c->peers + 1);
    c->drained_end = &c->drained;
    if (!c->world || !c->peers || (c->local_size && !c->local)) {
        record_free(c);
        return NULL;
    }
    return c;
}

/* The same for a duplicate that does not exist yet (MPI_Comm_idup). */
static struct comm *record_copy(const struct comm *from)
{
    struct comm *c = arena_alloc(sizeof *c);
    if (!c)
        return NULL;
    c->rank = from->rank;
    c->size = from->size;
    c->local_size = from->local_size;
    c->world = arena_alloc((size_t)c->size * sizeof *c->world + 1);
    c->peers = arena_alloc((size_t)c->size * sizeof *c->peers + 1);
    c->local = c->local_size ? arena_alloc((size_t)c->local_size * sizeof *c->local) : NULL;
    c->drained_end = &c->drained;
    if (!c->world || !c->peers || (c->local_size && !c->local)) {
        record_free(c);
        return NULL;
    }
    memcpy(c->world, from->world, (size_t)c->size * sizeof *c->world);
    if (c->local)
        memcpy(c->local, from->local, (size_t)c->local_size * sizeof *c->local);
    return c;
}

/* The smallest world rank among all members: the same on all of them, and in one group of a split only. */
static uint64_t leader_of(const struct comm *c)
{
    int least = c->world[0];
    for (int i = 1; i < c->size; i++)
        least = c->world[i] < least ? c->world[i] : least;
    for (int i = 0; i < c->local_size; i++)
        least = c->local[i] < least ? c->local[i] : least;
    return (uint64_t)least;
}

static void enlist(struct comm *c, struct handle *handle, uint64_t id)
{
    c->id = id;
    c->handle = handle;
    handle->record = c;
    *end = c;
    end = &c->next;
    take_slot(c);
}

static void make_private(void)
{
    void *errors_return = api_real(MPI_ERRORS_RETURN);
    lower_MPI_Comm_dup(api_real(MPI_COMM_WORLD), &private_world);
    lower_MPI_Comm_dup(api_real(MPI_COMM_WORLD), &private_end);
    lower_MPI_Comm_dup(api_real(MPI_COMM_SELF), &private_self);
    lower_MPI_Comm_set_errhandler(private_world, errors_return);
    lower_MPI_Comm_set_errhandler(private_self, errors_return);
}

static int start_acks(void)
{
    void *real = NULL;
    lower_MPI_Comm_dup(api_real(MPI_COMM_WORLD), &real);
    acks = comm_adopt(real, ACKS_ID);
    return acks ? 0 : -1;
}

int comm_start(void)
{
    struct comm *world = record_new(api_real(MPI_COMM_WORLD)), *self = record_new(api_real(MPI_COMM_SELF));
    if (!world || !self)
        return -1;
    enlist(world, (struct handle *)(void *)MPI_COMM_WORLD, WORLD_ID);
    enlist(self, (struct handle *)(void *)MPI_COMM_SELF, make_id(SELF_ID, 0, (uint64_t)world->rank));
    make_private();
    return start_acks();
}

static MPI_Comm enlist_new(struct comm *c, void *real, uint64_t id)
{
    struct handle *handle = c ? handle_new(HANDLE_COMM, real) : NULL;
    if (!handle)
        return NULL;
    enlist(c, handle, id);
    return (MPI_Comm)(void *)handle;
}

MPI_Comm comm_adopt(void *real, uint64_t id)
{
    return enlist_new(record_new(real), real, id);
}

MPI_Comm comm_register(void *real, struct comm *parent)
{
    if (real == api_real(MPI_COMM_NULL))
        return MPI_COMM_NULL;
    struct comm *c = record_new(real);
    return c ? enlist_new(c, real, make_id(parent->id, parent->seq, leader_of(c))) : NULL;
}

static void drop_messages(struct comm *c)
{
    while (c->drained) {
        struct message *message = c->drained;
        c->drained = message->next;
        arena_free(message);
    }
}

static void ending_free(struct ending *ending)
{
    arena_free(ending->sent);
    arena_free(ending->coming);
    arena_free(ending);
}

/* Take the record out; requests that are done may keep the handle a little longer. */
static void unregister(struct comm *c)
{
    ending_free(c->ending);
    endings--;
    struct comm **link = &first;
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    if (!c->next)
        end = link;
    give_slot(c);
    drop_messages(c);
    struct handle *handle = c->handle;
    handle->record = NULL;
    record_free(c);
    handle_release(HANDLE_COMM, handle);
}

static bool is_exchanged(struct ending *ending)
{
    int flag = 1;
    if (ending->request)
        lower_MPI_Test(&ending->request, &flag, MPI_STATUS_IGNORE);
    if (flag)
        ending->request = NULL;
    return flag;
}

static void expect_coming(struct comm *c)
{
    for (int i = 0; i < c->size; i++)
        if (c->ending->coming[i] > c->peers[i].expected)
            c->peers[i].expected = c->ending->coming[i];
}

bool comm_endings_in_flight(void)
{
    bool in_flight = false;
    for (struct comm *c = endings ? first : NULL; c; c = c->next) {
        if (!c->ending)
            continue;
        if (is_exchanged(c->ending))
            expect_coming(c);
        else
            in_flight = true;
    }
    return in_flight;
}

void comm_reap(void)
{
    struct comm *next;
    for (struct comm *c = endings ? first : NULL; c; c = next) {
        next = c->next;
        if (!c->ending || !is_exchanged(c->ending) || c->pending)
            continue;
        void *real = c->handle->real;
        if (real)
            lower_MPI_Comm_free(&real);
        unregister(c);
    }
}

void comm_note_all(void)
{
    for (struct comm *c = first; c; c = c->next) {
        int length;
        void *errhandler = NULL;
        if (c->ending)
            continue;
        lower_MPI_Comm_get_name(c->handle->real, c->name, &length);
        lower_MPI_Comm_get_errhandler(c->handle->real, &errhandler);
        c->errhandler = handle_find(HANDLE_ERRHANDLER, errhandler);
        lower_MPI_Errhandler_free(&errhandler);
    }
}

static void *create_from(void *world_group, const int *world, int size)
{
    void *group = NULL, *real = NULL;
    lower_MPI_Group_incl(world_group, size, world, &group);
    lower_MPI_Comm_create_group(api_real(MPI_COMM_WORLD), group, 0, &real);
    lower_MPI_Group_free(&group);
    return real;
}

static void *create_inter(const struct comm *c, void *world_group)
{
    void *local = create_from(world_group, c->local, c->local_size), *real = NULL;
    lower_MPI_Intercomm_create(local, 0, api_real(MPI_COMM_WORLD), c->world[0], 0, &real);
    lower_MPI_Comm_free(&local);
    return real;
}

/* Every rank does this in the order of ids, so that no two wait for one another in different ones. */
static void rebuild(struct comm *c, void *world_group)
{
    if (c->ending) { /* all members have freed it, and every message of it is in memory */
        c->handle->real = NULL;
        c->ending->request = NULL;
        return;
    }
    if (comm_is_inter(c))
        c->handle->real = create_inter(c, world_group);
    else if (!c->handle->is_predefined)
        c->handle->real = create_from(world_group, c->world, c->size);
    if (c->name[0])
        lower_MPI_Comm_set_name(c->handle->real, c->name);
    if (c->errhandler)
        lower_MPI_Comm_set_errhandler(c->handle->real, api_real(c->errhandler));
    memset(c->peers, 0, (size_t)c->size * sizeof *c->peers); /* a new library has carried nothing yet */
}

static int compare_ids(const void *a, const void *b)
{
    const struct comm *x = *(struct comm *const *)a, *y = *(struct comm *const *)b;
    return (x->id > y->id) - (x->id < y->id);
}

/* Insertion into a sorted array is enough for restarts, and needs no malloc (qsort may call it). */
static void sort_by_id(struct comm **list, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct comm *c = list[i];
        size_t at = i;
        for (; at > 0 && compare_ids(&list[at - 1], &c) > 0; at--)
            list[at] = list[at - 1];
        list[at] = c;
    }
}

void comm_rebuild_all(void)
{
    void *world_group = NULL;
    size_t count = 0, used = 0;
    for (struct comm *c = first; c; c = c->next)
        count++;
    struct comm **list = arena_alloc(count * sizeof *list);
    free_slot_count = 0;
    for (struct comm *c = first; c; c = c->next) {
        take_slot(c);
        list[used++] = c;
    }
    make_private();
    lower_MPI_Comm_group(api_real(MPI_COMM_WORLD), &world_group);
    sort_by_id(list, count);
    for (size_t i = 0; i < count; i++)
        rebuild(list[i], world_group);
    lower_MPI_Group_free(&world_group);
    arena_free(list);
}

/* ---- functions of MPI that make or end communicators: collectives on their parent ---- */

static int out_of_memory(MPI_Comm comm)
{
    return errors_raise(comm, MPI_ERR_NO_MEM);
}

/* Common end of the creating calls: record the new communicator and leave the parent's collective. */
static int created(int code, void *real, MPI_Comm parent, MPI_Comm *new_comm)
{
    MPI_Comm made = MPI_COMM_NULL;
    if (code == MPI_SUCCESS && !(made = comm_register(real, comm_of(parent))))
        code = out_of_memory(parent);
    if (code == MPI_SUCCESS)
        *new_comm = made;
    comm_reap();
    collective_leave(parent);
    return code;
}

static int dup_attributes(int code, MPI_Comm parent, MPI_Comm *new_comm)
{
    if (code == MPI_SUCCESS && *new_comm != MPI_COMM_NULL)
        code = attr_copy_all(parent, *new_comm);
    return code;
}

int PMPI_Comm_dup(MPI_Comm comm, MPI_Comm *newcomm)
{
    void *real = NULL;
    collective_enter(comm);
    int code = lower_MPI_Comm_dup(api_real(comm), &real);
    return dup_attributes(created(code, real, comm, newcomm), comm, newcomm);
}
API_EXPORT(MPI_Comm_dup);

int PMPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm)
{
    void *real = NULL;
    collective_enter(comm);
    int code = lower_MPI_Comm_dup_with_info(api_real(comm), api_real(info), &real);
    return dup_attributes(created(code, real, comm, newcomm), comm, newcomm);
}
API_EXPORT(MPI_Comm_dup_with_info);

int PMPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *newcomm)
{
    void *real = NULL;
    collective_enter(comm);
    int code = lower_MPI_Comm_split(api_real(comm), color, key, &real);
    return created(code, real, comm, newcomm);
}
API_EXPORT(MPI_Comm_split);

int PMPI_Comm_split_type(MPI_Comm comm, int split_type, int key, MPI_Info info, MPI_Comm *newcomm)
{
    void *real = NULL;
    collective_enter(comm);
    int code = lower_MPI_Comm_split_type(api_real(comm), split_type, key, api_real(info), &real);
    return created(code, real, comm, newcomm);
}
API_EXPORT(MPI_Comm_split_type);

int PMPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *newcomm)
{
    void *real = NULL;
    collective_enter(comm);
    int code = lower_MPI_Comm_create(api_real(comm), api_real(group), &real);
    return created(code, real, comm, newcomm);
}
API_EXPORT(MPI_Comm_create);

/*
 * The new communicator is there when the request is done; until then its handle has no real twin and its
 * record is a copy of the old one's.
 */
int PMPI_Comm_idup(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request)
{
    collective_enter(comm);
    struct comm *c = comm_of(comm), *copy = c ? record_copy(c) : NULL;
    struct request *r = copy ? request_new(REQUEST_COLLECTIVE, comm, NULL) : NULL;
    int code = MPI_ERR_NO_MEM;
    if (!c)
        code = MPI_ERR_COMM;
    else if (r && (*newcomm = enlist_new(copy, NULL, make_id(c->id, c->seq, leader_of(c)))))
        code = lower_MPI_Comm_idup(api_real(comm), &r->made_real, &r->real);
    if (code == MPI_SUCCESS) {
        r->made = (struct handle *)(void *)*newcomm;
        *request = (MPI_Request)(void *)r;
    }
    collective_leave(comm);
    return code == MPI_SUCCESS ? attr_copy_all(comm, *newcomm) : errors_raise(comm, code);
}
API_EXPORT(MPI_Comm_idup);

/* Collectives over a group that shares no communicator of its own: the members meet first (meet.h). */

static int adopted(int code, void *real, uint64_t id, MPI_Comm parent, MPI_Comm *new_comm)
{
    MPI_Comm made = MPI_COMM_NULL;
    if (code == MPI_SUCCESS && real != api_real(MPI_COMM_NULL) && !(made = comm_adopt(real, id)))
        code = out_of_memory(parent);
    if (code == MPI_SUCCESS)
        *new_comm = made;
    comm_reap();
    meet_leave();
    return code;
}

int PMPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *newcomm)
{
    void *real = NULL, *members = NULL;
    int size = 0, rank = MPI_UNDEFINED;
    wrapper_enter();
    lower_MPI_Group_size(api_real(group), &size);
    lower_MPI_Group_rank(api_real(group), &rank);
    int *world = NULL;
    if (rank != MPI_UNDEFINED && !lower_MPI_Group_excl(api_real(group), 0, NULL, &members))
        world = members_of(members, size);
    wrapper_leave();
    uint64_t id = world ? meet_group(world, size, rank) : meet_nobody();
    arena_free(world);
    int code = lower_MPI_Comm_create_group(api_real(comm), api_real(group), tag, &real);
    return adopted(code, real, id, comm, newcomm);
}
API_EXPORT(MPI_Comm_create_group);

int PMPI_Intercomm_create(MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader, int tag,
                          MPI_Comm *newintercomm)
{
    void *real = NULL;
    const struct comm *local = comm_of(local_comm), *peer = comm_of(peer_comm);
    if (!local)
        return errors_raise(local_comm, MPI_ERR_COMM);
    bool is_leader = local->rank == local_leader;
    if (is_leader && (!peer || remote_leader < 0 || remote_leader >= peer->size))
        return errors_raise(local_comm, peer ? MPI_ERR_RANK : MPI_ERR_COMM);
    uint64_t id = meet_groups(local->world, local->size, local->rank, local_leader,
                              is_leader ? peer->world[remote_leader] : 0);
    int code = lower_MPI_Intercomm_create(api_real(local_comm), local_leader, api_real(peer_comm), remote_leader, tag,
                                          &real);
    return adopted(code, real, id, local_comm, newintercomm);
}
API_EXPORT(MPI_Intercomm_create);

int PMPI_Intercomm_merge(MPI_Comm intercomm, int high, MPI_Comm *newcomm)
{
    void *real = NULL;
    collective_enter(intercomm);
    int code = lower_MPI_Intercomm_merge(api_real(intercomm), high, &real);
    return created(code, real, intercomm, newcomm);
}
API_EXPORT(MPI_Intercomm_merge);

static struct ending *ending_new(const struct comm *c)
{
    struct ending *ending = arena_alloc(sizeof *ending);
    if (!ending)
        return NULL;
    ending->sent = arena_alloc((size_t)c->size * sizeof *ending->sent + 1);
    ending->coming = arena_alloc((size_t)c->size * sizeof *ending->coming + 1);
    if (ending->sent && ending->coming)
        return ending;
    ending_free(ending);
    return NULL;
}

/* From here on nobody on this rank can send on it any more, so the counts are final. */
static int start_ending(struct comm *c)
{
    struct ending *ending = ending_new(c);
    if (!ending)
        return MPI_ERR_NO_MEM;
    for (int i = 0; i < c->size; i++)
        ending->sent[i] = c->peers[i].sent;
    int code = lower_MPI_Ialltoall(ending->sent, 1, api_real(MPI_UINT64_T), ending->coming, 1,
                                   api_real(MPI_UINT64_T), c->handle->real, &ending->request);
    if (code != MPI_SUCCESS) {
        ending_free(ending);
        return code;
    }
    c->ending = ending;
    endings++;
    return MPI_SUCCESS;
}

/*
 * The real communicator lives on until every member has freed it and what was sent on it has been received:
 * a line must not find messages of a communicator that half of its members have forgotten.
 */
int PMPI_Comm_free(MPI_Comm *comm)
{
    struct comm *c = comm_of(*comm);
    if (!c || c->handle->is_predefined) {
        wrapper_enter();
        void *real = api_real(*comm);
        int code = lower_MPI_Comm_free(&real); /* the library says what is wrong with it */
        wrapper_leave();
        return code;
    }
    int code = attr_delete_all(*comm);
    if (code != MPI_SUCCESS)
        return code;
    collective_enter(*comm);
    code = start_ending(c);
    if (code == MPI_SUCCESS)
        *comm = MPI_COMM_NULL;
    comm_reap();
    collective_leave(MPI_COMM_NULL);
    return code == MPI_SUCCESS ? code : errors_raise(*comm, code);
}
API_EXPORT(MPI_Comm_free);

/* Asked so often that the way to the library would show. */

int PMPI_Comm_rank(MPI_Comm comm, int *rank)
{
    const struct comm *c = comm_of(comm);
    if (LIKELY(c && rank)) {
        *rank = c->rank;
        return MPI_SUCCESS;
    }
    return lower_MPI_Comm_rank(api_real(comm), rank);
}
API_EXPORT(MPI_Comm_rank);

int PMPI_Comm_size(MPI_Comm comm, int *size)
{
    const struct comm *c = comm_of(comm);
    if (LIKELY(c && size)) {
        *size = comm_is_inter(c) ? c->local_size : c->size;
        return MPI_SUCCESS;
    }
    return lower_MPI_Comm_size(api_real(comm), size);
}
API_EXPORT(MPI_Comm_size);
