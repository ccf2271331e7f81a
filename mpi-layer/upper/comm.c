/* comm.c - see comm.h. */
#include "mpi-layer/upper/comm.h"

#include <stdlib.h>
#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/half.h"
#include "mpi-layer/upper/info.h"
#include "mpi-layer/upper/topology.h"

#define WORLD_ID 1
#define SELF_ID 2
#define ACKS_ID 3

static struct comm *first, *last; /* all communicators */
static struct table by_id;
static void *private_world, *private_self, *private_end; /* real handles, made by every launch */
static MPI_Comm acks;
static uint32_t free_slots[1 << 16]; /* slots given back, reused first */
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
    struct table_entry *e = table_first(&by_id, table_mix(id));
    for (; e; e = table_next(e))
        if (TABLE_OWNER(e, struct comm, entry)->id == id)
            return TABLE_OWNER(e, struct comm, entry);
    return NULL;
}

static uint64_t make_id(uint64_t parent, uint64_t creation, uint64_t leader)
{
    uint64_t id = table_mix(table_mix(table_mix(parent) + creation) + leader);
    return id > ACKS_ID ? id : id + ACKS_ID + 1;
}

static void take_slot(struct comm *c)
{
    struct control *control = half_control();
    c->slot = free_slot_count ? free_slots[--free_slot_count] : control->slots;
    uint32_t version = control_publish_begin(control);
    control->clocks[c->slot].seq = c->seq;
    control->clocks[c->slot].comm = c->id;
    control->clocks[c->slot].size = (uint64_t)c->size + (uint64_t)c->local_size;
    if (c->slot >= control->slots)
        control->slots = c->slot + 1;
    control_publish_end(control, version);
}

static void give_slot(struct comm *c)
{
    struct control *control = half_control();
    uint32_t version = control_publish_begin(control);
    control->clocks[c->slot].comm = 0;
    control_publish_end(control, version);
    if (free_slot_count < sizeof free_slots / sizeof free_slots[0])
        free_slots[free_slot_count++] = c->slot;
}

int *comm_members(void *group, int size)
{
    void *world_group = NULL;
    int *own = arena_alloc((size_t)size * sizeof *own + 1);
    int *world = arena_alloc((size_t)size * sizeof *world + 1);
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
        c->local = comm_members(group, c->local_size);
        lower_MPI_Comm_remote_size(real, &c->size);
        lower_MPI_Comm_remote_group(real, &group);
    } else {
        lower_MPI_Comm_size(real, &c->size);
    }
    c->world = comm_members(group, c->size);
}

static void record_free(struct comm *c)
{
    arena_free(c->world);
    arena_free(c->local);
    arena_free(c->peers);
    arena_free(c->topology);
    arena_free(c->hints);
    arena_free(c);
}

static int record_fill(struct comm *c, void *real)
{
    lower_MPI_Comm_rank(real, &c->rank);
    find_members(c, real);
    c->peers = arena_alloc((size_t)c->size * sizeof *c->peers + 1);
    return !c->world || !c->peers || (c->local_size && !c->local) ? -1 : 0;
}

static struct comm *record_new(void *real)
{
    struct comm *c = arena_alloc(sizeof *c);
    if (c && record_fill(c, real)) {
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
    c->previous = last;
    *(last ? &last->next : &first) = c;
    last = c;
    table_add(&by_id, &c->entry, table_mix(id));
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
    lower_MPI_Comm_set_errhandler(real, api_real(MPI_ERRORS_RETURN)); /* what fails is tried again */
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

MPI_Comm comm_reserve(uint64_t id)
{
    struct comm *c = arena_alloc(sizeof *c);
    if (!c)
        return NULL;
    return enlist_new(c, NULL, id);
}

int comm_fill(struct comm *c, void *real)
{
    handle_set_real(c->handle, real);
    return record_fill(c, real);
}

MPI_Comm comm_register(void *real, struct comm *parent)
{
    if (real == api_real(MPI_COMM_NULL))
        return MPI_COMM_NULL;
    struct comm *c = record_new(real);
    return c ? enlist_new(c, real, make_id(parent->id, parent->seq, leader_of(c))) : NULL;
}

MPI_Comm comm_copy(struct comm *parent)
{
    struct comm *c = record_copy(parent);
    return c ? enlist_new(c, NULL, make_id(parent->id, parent->seq, leader_of(c))) : NULL;
}

void comm_unregister(struct comm *c)
{
    *(c->previous ? &c->previous->next : &first) = c->next;
    *(c->next ? &c->next->previous : &last) = c->previous;
    table_remove(&by_id, &c->entry);
    give_slot(c);
    struct handle *handle = c->handle;
    handle->record = NULL;
    record_free(c);
    handle_release(HANDLE_COMM, handle);
}

static bool note_hints(struct comm *c)
{
    void *info = NULL;
    if (lower_MPI_Comm_get_info(c->handle->real, &info) != MPI_SUCCESS)
        return false;
    struct info *hints = info_note(info, c->hints);
    c->hints = hints ? hints : c->hints;
    lower_MPI_Info_free(&info);
    return hints != NULL;
}

static bool note_errhandler(struct comm *c)
{
    void *errhandler = NULL;
    if (lower_MPI_Comm_get_errhandler(c->handle->real, &errhandler) != MPI_SUCCESS)
        return false;
    c->errhandler = handle_find(HANDLE_ERRHANDLER, errhandler);
    lower_MPI_Errhandler_free(&errhandler);
    return true;
}

/* What has been noted stays so until the application changes it. */
static bool note(struct comm *c)
{
    if (!c->is_errhandler_noted)
        c->is_errhandler_noted = note_errhandler(c);
    if (c->has_hints && !c->are_hints_noted)
        c->are_hints_noted = note_hints(c);
    if (!c->is_noted)
        c->is_noted = topology_note(c->handle->real, &c->topology);
    return c->is_errhandler_noted && (c->are_hints_noted || !c->has_hints) && c->is_noted;
}

bool comm_note_all(void)
{
    for (struct comm *c = first; c; c = c->next)
        if (!c->ending && c->handle->real && !note(c))
            return false;
    return true;
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

/*
 * Hints that the library does not know stay with a communicator made with them, and are dropped if they are
 * set later. All members have hints if one has.
 */
static void restore_hints(const struct comm *c)
{
    void *info = info_make(c->hints), *without = c->handle->real;
    if (c->handle->is_predefined) {
        lower_MPI_Comm_set_info(without, info);
    } else {
        lower_MPI_Comm_dup_with_info(without, info, &c->handle->real);
        lower_MPI_Comm_free(&without);
    }
    lower_MPI_Info_free(&info);
}

/* Its name and error handler. */
static void decorate(const struct comm *c)
{
    if (c->handle->name)
        lower_MPI_Comm_set_name(c->handle->real, c->handle->name);
    if (c->errhandler)
        lower_MPI_Comm_set_errhandler(c->handle->real, api_real(c->errhandler));
}

/* Every rank does this in the order of ids, so that no two wait for one another in different ones. */
static void rebuild(struct comm *c, void *world_group)
{
    if (!c->size) /* reserved: it will be made */
        return;
    if (c->ending) { /* all members have freed it, and every message of it is in memory */
        c->handle->real = NULL;
        c->ending->request = NULL;
        return;
    }
    if (comm_is_inter(c))
        c->handle->real = create_inter(c, world_group);
    else if (!c->handle->is_predefined)
        c->handle->real = create_from(world_group, c->world, c->size);
    if (c->topology)
        c->handle->real = topology_restore(c->topology, c->handle->real);
    if (c->hints)
        restore_hints(c);
    decorate(c);
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
