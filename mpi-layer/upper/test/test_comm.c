/*
 * test_comm.c - the records of communicators: ids on which members agree without a message, clocks on the
 * control page, what a new library makes them of, and when one that the application has freed is gone.
 */
#include "mpi-layer/upper/comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/fortran/numbers.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/drained.h"
#include "mpi-layer/upper/info.h"
#include "mpi-layer/upper/test/around.h"
#include "mpi-layer/upper/test/below.h"
#include "mpi-layer/upper/topology.h"

#define RANKS 4 /* of MPI_COMM_WORLD; this one is rank 0 */

/* What the library below knows of a group of ranks, and of a communicator, whose own group comes first. */
struct members {
    int count, world[RANKS];
};
struct real {
    struct members own, remote;
    int rank;
    bool is_freed;
};

static struct real reals[64];
static struct members groups[256];
static int real_count, group_count;
static char calls[2000];       /* that make or change communicators, in their order */
static uint64_t *asked, *told; /* of the exchange of counts that has begun */
static bool is_exchanged;
static int dropped; /* communicators whose drained messages have gone */

static void log_call(const char *format, ...)
{
    size_t used = strlen(calls);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(calls + used, sizeof calls - used, format, arguments);
    va_end(arguments);
}

static struct real *real_new(const int *world, int count, int rank)
{
    struct real *real = &reals[real_count++];
    *real = (struct real){.own.count = count, .rank = rank};
    memcpy(real->own.world, world, (size_t)count * sizeof *world);
    return real;
}

static struct members *group_new(const struct members *members)
{
    groups[group_count] = *members;
    return &groups[group_count++];
}

static int comm_rank(struct real *comm, int *rank)
{
    *rank = comm->rank;
    return MPI_SUCCESS;
}

static int comm_size(struct real *comm, int *size)
{
    *size = comm->own.count;
    return MPI_SUCCESS;
}

static int remote_size(struct real *comm, int *size)
{
    *size = comm->remote.count;
    return MPI_SUCCESS;
}

static int test_inter(struct real *comm, int *flag)
{
    *flag = comm->remote.count > 0;
    return MPI_SUCCESS;
}

static int comm_group(struct real *comm, struct members **group)
{
    *group = group_new(&comm->own);
    return MPI_SUCCESS;
}

static int remote_group(struct real *comm, struct members **group)
{
    *group = group_new(&comm->remote);
    return MPI_SUCCESS;
}

static int translate(struct members *from, int count, const int *ranks, struct members *to, int *translated)
{
    assert_int_equal(to->count, RANKS); /* the world's, where rank and number are the same */
    for (int i = 0; i < count; i++)
        translated[i] = from->world[ranks[i]];
    return MPI_SUCCESS;
}

static int group_incl(struct members *world, int count, const int *ranks, struct members **group)
{
    struct members members = {.count = count};
    for (int i = 0; i < count; i++)
        members.world[i] = world->world[ranks[i]];
    *group = group_new(&members);
    return MPI_SUCCESS;
}

static int group_free(struct members **group)
{
    *group = NULL;
    return MPI_SUCCESS;
}

static int create_group(struct real *comm, struct members *group, int tag, struct real **made)
{
    (void)tag;
    assert_int_equal(comm->own.count, RANKS);
    log_call("create");
    for (int i = 0; i < group->count; i++)
        log_call(" %d", group->world[i]);
    log_call("; ");
    *made = real_new(group->world, group->count, 0);
    return MPI_SUCCESS;
}

static int intercomm_create(struct real *local, int leader, struct real *peer, int remote, int tag,
                            struct real **made)
{
    (void)tag;
    log_call("join %d with %d; ", local->own.world[leader], peer->own.world[remote]);
    *made = real_new(local->own.world, local->own.count, 0);
    return MPI_SUCCESS;
}

static int comm_dup(struct real *comm, struct real **made)
{
    *made = real_new(comm->own.world, comm->own.count, comm->rank);
    return MPI_SUCCESS;
}

static int dup_with_info(struct real *comm, void *info, struct real **made)
{
    log_call("hints %s; ", (const char *)info);
    return comm_dup(comm, made);
}

static int set_info(struct real *comm, void *info)
{
    log_call("hints %s on %d ranks; ", (const char *)info, comm->own.count);
    return MPI_SUCCESS;
}

static int comm_free(struct real **comm)
{
    assert_false((*comm)->is_freed);
    (*comm)->is_freed = true;
    *comm = NULL;
    return MPI_SUCCESS;
}

static int set_errhandler(struct real *comm, void *errhandler)
{
    if (errhandler != api_real(MPI_ERRORS_RETURN)) /* Belay's own have that */
        log_call("errhandler on %d ranks; ", comm->own.count);
    return MPI_SUCCESS;
}

static int get_errhandler(struct real *comm, void **errhandler)
{
    log_call("look; ");
    (void)comm;
    *errhandler = below_real(20);
    return MPI_SUCCESS;
}

static int set_name(struct real *comm, const char *name)
{
    log_call("name %s on %d ranks; ", name, comm->own.count);
    return MPI_SUCCESS;
}

static int set_null(void **object)
{
    *object = NULL;
    return MPI_SUCCESS;
}

static int get_info(struct real *comm, void **info)
{
    (void)comm;
    *info = below_real(21);
    return MPI_SUCCESS;
}

static int ialltoall(uint64_t *sent, int count, void *type, uint64_t *coming, int coming_count,
                     void *coming_type, struct real *comm, void **request)
{
    (void)type;
    (void)coming_type;
    assert_true(count == 1 && coming_count == 1 && !comm->is_freed);
    asked = sent;
    told = coming;
    is_exchanged = false;
    *request = below_real(22);
    return MPI_SUCCESS;
}

static int test_request(void **request, int *flag, MPI_Status *status)
{
    (void)request;
    (void)status;
    *flag = is_exchanged;
    return MPI_SUCCESS;
}

/* ---- other files of the upper half ---- */

struct topology {
    int dimensions;
};

bool topology_note(void *real, struct topology **topology)
{
    (void)real;
    *topology = NULL;
    return true;
}

void *topology_restore(const struct topology *topology, void *real)
{
    struct real *comm = real;
    log_call("topology of %d dimensions; ", topology->dimensions);
    comm->is_freed = true;
    return real_new(comm->own.world, comm->own.count, comm->rank);
}

struct info {
    char text[8];
};

struct info *info_note(void *real, struct info *old)
{
    struct info *info = arena_alloc(sizeof *info);
    (void)real;
    if (!info)
        return NULL;
    strcpy(info->text, "noted");
    arena_free(old);
    return info;
}

void *info_make(const struct info *info)
{
    return (void *)(uintptr_t)info->text;
}

void drained_drop(struct comm *comm)
{
    (void)comm;
    dropped++;
}

void handle_kind_forget(struct handle *handle)
{
    assert_int_equal(handle->kind, HANDLE_COMM);
}

/* ---- */

/* Of a predefined handle's twin: an address of its own. */
static void *symbol(const char *name)
{
    return (void *)(uintptr_t)name;
}

static const int everybody[RANKS] = {0, 1, 2, 3};

static void bind(void)
{
    *(void **)(void *)MPI_COMM_WORLD = real_new(everybody, RANKS, 0);
    *(void **)(void *)MPI_COMM_SELF = real_new(everybody, 1, 0);
}

static int start(void **state)
{
    (void)state;
    BELOW_SET(MPI_Comm_rank, comm_rank);
    BELOW_SET(MPI_Comm_size, comm_size);
    BELOW_SET(MPI_Comm_remote_size, remote_size);
    BELOW_SET(MPI_Comm_test_inter, test_inter);
    BELOW_SET(MPI_Comm_group, comm_group);
    BELOW_SET(MPI_Comm_remote_group, remote_group);
    BELOW_SET(MPI_Group_translate_ranks, translate);
    BELOW_SET(MPI_Group_incl, group_incl);
    BELOW_SET(MPI_Group_free, group_free);
    BELOW_SET(MPI_Comm_create_group, create_group);
    BELOW_SET(MPI_Intercomm_create, intercomm_create);
    BELOW_SET(MPI_Comm_dup, comm_dup);
    BELOW_SET(MPI_Comm_dup_with_info, dup_with_info);
    BELOW_SET(MPI_Comm_set_info, set_info);
    BELOW_SET(MPI_Comm_get_info, get_info);
    BELOW_SET(MPI_Comm_free, comm_free);
    BELOW_SET(MPI_Comm_set_errhandler, set_errhandler);
    BELOW_SET(MPI_Comm_get_errhandler, get_errhandler);
    BELOW_SET(MPI_Comm_set_name, set_name);
    BELOW_SET(MPI_Errhandler_free, set_null);
    BELOW_SET(MPI_Info_free, set_null);
    BELOW_SET(MPI_Ialltoall, ialltoall);
    BELOW_SET(MPI_Test, test_request);
    GATE->symbol = symbol;
    while (comm_first())
        comm_unregister(comm_first());
    real_count = group_count = dropped = 0;
    calls[0] = 0;
    around_start();
    handle_bind_predefined();
    bind();
    *(void **)(void *)MPI_ERRORS_RETURN = below_real(19);
    return comm_start();
}

static struct comm *create(const int *world, int count, int rank)
{
    struct comm *c = comm_of(comm_register(real_new(world, count, rank), comm_world()));
    assert_non_null(c);
    return c;
}

static uint64_t id_of(struct real *real, uint64_t creation)
{
    comm_world()->seq = creation;
    struct comm *c = comm_of(comm_register(real, comm_world()));
    uint64_t id = c->id;
    assert_ptr_equal(comm_by_id(id), c);
    comm_unregister(c);
    assert_null(comm_by_id(id));
    return id;
}

/* All members get the same id, and no other communicator has it. */
static void members_agree_on_ids(void **state)
{
    (void)state;
    const int even[] = {2, 0}, odd[] = {3, 1};
    uint64_t first = id_of(real_new(even, 2, 0), 7);
    assert_int_equal(id_of(real_new(even, 2, 1), 7), first);     /* as the other member sees it */
    assert_int_not_equal(id_of(real_new(odd, 2, 0), 7), first);  /* the other half of a split */
    assert_int_not_equal(id_of(real_new(even, 2, 0), 8), first); /* the next call */
    assert_int_not_equal(first, comm_world()->id);
    struct real *left = real_new(even, 2, 0), *right = real_new(odd, 2, 0);
    left->remote = right->own;
    right->remote = left->own;
    assert_int_equal(id_of(left, 9), id_of(right, 9)); /* both sides of an intercommunicator */
    assert_ptr_equal(comm_register(api_real(MPI_COMM_NULL), comm_world()), MPI_COMM_NULL);
}

static void messages_go_to_the_remote_group(void **state)
{
    (void)state;
    const int even[] = {2, 0}, odd[] = {3, 1, 2};
    struct real *real = real_new(even, 2, 1);
    real->remote = (struct members){3, {odd[0], odd[1], odd[2]}};
    const struct comm *c = comm_of(comm_register(real, comm_world()));
    assert_true(comm_is_inter(c));
    assert_int_equal(c->rank, 1);
    assert_int_equal(c->size, 3);
    assert_memory_equal(c->world, odd, sizeof odd);
    assert_int_equal(c->local_size, 2);
    assert_memory_equal(c->local, even, sizeof even);
    assert_int_equal(half_control()->clocks[c->slot].size, 5);
}

/* The agent finds a clock for each on the page, under the communicator's id; a free one is used again. */
static void each_has_a_clock(void **state)
{
    (void)state;
    const struct control *control = half_control();
    struct comm *a = create(everybody, 2, 0), *b = create(everybody, 3, 0);
    uint32_t slots = control->slots, version = control->version;
    assert_true(a->slot < slots && b->slot < slots);
    assert_int_not_equal(a->slot, b->slot);
    assert_int_equal(control->clocks[a->slot].comm, a->id);
    assert_int_equal(control->clocks[b->slot].size, 3);
    uint32_t slot = a->slot;
    comm_unregister(a);
    assert_int_equal(control->clocks[slot].comm, 0);
    a = create(everybody, 2, 0);
    assert_int_equal(a->slot, slot);
    assert_int_equal(control->slots, slots);
    assert_true(control->version != version && control->version % 2 == 0);
}

static void clear_page(void)
{
    int seqs = 1;
    for (struct comm *c = comm_first(); c; c = c->next)
        c->seq = (uint64_t)seqs++;
    around_start(); /* every launch has a page of its own */
}

/* After a restart every rank makes the same ones in the same order: that of the ids. */
static void rebuilt_in_the_order_of_ids(void **state)
{
    (void)state;
    struct comm *made[6], *sorted[6];
    char expected[200] = "";
    const int members[6][2] = {{1, 0}, {0, 1}, {0, 2}, {2, 0}, {3, 0}, {0, 3}};
    for (int i = 0; i < 6; i++) {
        comm_world()->seq++;
        made[i] = sorted[i] = create(members[i], 2, i % 2);
        made[i]->peers[1] = (struct peer){.sent = 4, .received = 5, .expected = 6, .told = 4};
    }
    struct comm *reserved = comm_of(comm_reserve(77)); /* its members meet again and make it */
    for (int i = 0; i < 6; i++)
        for (int j = i + 1; j < 6; j++)
            if (sorted[j]->id < sorted[i]->id) {
                struct comm *c = sorted[i];
                sorted[i] = sorted[j];
                sorted[j] = c;
            }
    for (int i = 0; i < 6; i++)
        sprintf(expected + strlen(expected), "create %d %d; ", sorted[i]->world[0], sorted[i]->world[1]);
    clear_page();
    bind();
    comm_rebuild_all();
    char *acks = strstr(calls, "create 0 1 2 3; "); /* a communicator of Belay's, with the application's */
    assert_non_null(acks);
    memmove(acks, acks + 16, strlen(acks + 16) + 1);
    assert_string_equal(calls, expected);
    assert_null(reserved->handle->real);
    for (int i = 0; i < 6; i++) {
        const struct real *real = made[i]->handle->real;
        const struct control_clock *clock = &half_control()->clocks[made[i]->slot];
        assert_memory_equal(real->own.world, members[i], sizeof members[i]);
        assert_int_equal(clock->comm, made[i]->id);
        assert_int_equal(clock->seq, made[i]->seq);
        assert_memory_equal(&made[i]->peers[1], &(struct peer){0}, sizeof(struct peer));
        for (int j = 0; j < i; j++)
            assert_int_not_equal(made[i]->slot, made[j]->slot);
    }
    assert_int_equal(half_control()->clocks[reserved->slot].comm, 77);
    assert_true(half_control()->slots <= BELOW_CLOCKS);
}

/* Members, topology, hints, name, error handler: in an order in which none of them gets lost. */
static void rebuilt_with_what_it_had(void **state)
{
    (void)state;
    const int pair[] = {0, 2};
    struct comm *c = create(pair, 2, 0);
    struct handle *errhandler = handle_new(HANDLE_ERRHANDLER, below_real(20));
    handle_set_name(c->handle, "grid");
    handle_set_name((struct handle *)(void *)MPI_COMM_WORLD, "all");
    c->has_hints = comm_world()->has_hints = true;
    assert_true(comm_note_all());
    assert_ptr_equal(c->errhandler, errhandler);
    c->topology = arena_alloc(sizeof *c->topology);
    c->topology->dimensions = 2;
    for (struct comm *other = comm_first(); other; other = other->next)
        if (other != c)
            other->errhandler = NULL;
    calls[0] = 0;
    clear_page();
    bind();
    comm_rebuild_all();
    assert_non_null(strstr(calls, "create 0 2; topology of 2 dimensions; hints noted; name grid on 2 ranks; "
                                  "errhandler on 2 ranks; "));
    assert_non_null(
        strstr(calls, "hints noted on 4 ranks; name all on 4 ranks; ")); /* MPI_COMM_WORLD as it is */
    assert_false(((const struct real *)c->handle->real)->is_freed);
}

static void both_groups_are_rebuilt(void **state)
{
    (void)state;
    const int even[] = {2, 0};
    struct real *real = real_new(even, 2, 1);
    real->remote = (struct members){2, {3, 1}};
    comm_register(real, comm_world());
    clear_page();
    bind();
    comm_rebuild_all();
    assert_non_null(strstr(calls, "create 2 0; join 2 with 3; "));
}

/* The library is asked once, and again for what the application has changed. */
static void noted_once(void **state)
{
    (void)state;
    struct comm *c = create(everybody, 2, 0);
    assert_true(comm_note_all());
    calls[0] = 0;
    assert_true(comm_note_all());
    assert_string_equal(calls, "");
    c->is_errhandler_noted = false;
    c->has_hints = true;
    below_is_memory_short = true;
    assert_false(comm_note_all());
    below_is_memory_short = false;
    assert_null(c->hints);
    assert_true(comm_note_all());
    assert_string_equal(calls, "look; ");
    assert_non_null(c->hints);
    assert_false(c->handle->is_predefined);
}

static struct comm *end(struct comm *c)
{
    for (int i = 0; i < c->size; i++)
        c->peers[i].sent = (uint64_t)(10 + i);
    assert_int_equal(comm_end(c), MPI_SUCCESS);
    return c;
}

/* A freed one is there until all members have told what they have sent on it, and nothing is pending. */
static void a_freed_one_stays_until_it_is_over(void **state)
{
    (void)state;
    struct comm *c = end(create(everybody, 3, 0));
    struct real *real = c->handle->real;
    uint64_t id = c->id;
    assert_true(asked[0] == 10 && asked[2] == 12);
    c->pending = 1;
    comm_reap();
    assert_true(comm_endings_in_flight());
    assert_ptr_equal(comm_by_id(id), c);
    told[1] = 5;
    c->peers[2].expected = 9; /* known from a line */
    is_exchanged = true;
    comm_reap();
    assert_ptr_equal(comm_by_id(id), c);
    assert_false(comm_endings_in_flight()); /* a line may take messages of it still: */
    assert_int_equal(peer_missing(&c->peers[1]), 5);
    assert_int_equal(c->peers[2].expected, 9);
    c->pending = 0;
    comm_reap();
    assert_null(comm_by_id(id));
    assert_true(real->is_freed);
    assert_int_equal(dropped, 1);
    assert_false(comm_endings_in_flight());
}

/* No library makes it again: its messages are in memory, and only requests of the application are left. */
static void a_freed_one_is_not_rebuilt(void **state)
{
    (void)state;
    const int pair[] = {0, 2};
    struct comm *c = end(create(pair, 2, 0));
    uint64_t id = c->id;
    c->pending = 1;
    clear_page();
    bind();
    comm_rebuild_all();
    assert_null(strstr(calls, "create 0 2;"));
    assert_null(c->handle->real);
    assert_false(comm_endings_in_flight());
    c->pending = 0;
    comm_reap();
    assert_null(comm_by_id(id));
}

/* One that is not over does not keep the others. */
static void others_go_before_it(void **state)
{
    (void)state;
    struct comm *c[3];
    uint64_t ids[3];
    for (int i = 0; i < 3; i++) {
        comm_world()->seq++;
        c[i] = end(create(everybody, 3, 0));
        ids[i] = c[i]->id;
    }
    is_exchanged = true;
    c[1]->pending = 1;
    comm_reap();
    assert_null(comm_by_id(ids[0]));
    assert_non_null(comm_by_id(ids[1]));
    assert_null(comm_by_id(ids[2]));
    c[1]->pending = 0;
    comm_world()->seq++;
    struct comm *late = end(create(everybody, 3, 0)); /* the list is whole */
    uint64_t late_id = late->id;
    is_exchanged = true;
    comm_reap();
    assert_null(comm_by_id(ids[1]));
    assert_null(comm_by_id(late_id));
}

static void without_memory_it_stays(void **state)
{
    (void)state;
    struct comm *c = create(everybody, 3, 0);
    int blocks = below_blocks;
    below_is_memory_short = true;
    assert_int_equal(comm_end(c), MPI_ERR_NO_MEM);
    assert_null(comm_register(real_new(everybody, 3, 0), comm_world()));
    assert_null(comm_copy(c));
    below_is_memory_short = false;
    assert_null(c->ending);
    assert_int_equal(below_blocks, blocks);
}

/* MPI_Comm_idup: the record is there before the library has made its twin. */
static void a_copy_has_the_members(void **state)
{
    (void)state;
    const int even[] = {2, 0};
    struct real *real = real_new(even, 2, 1);
    real->remote = (struct members){2, {3, 1}};
    comm_world()->seq = 3;
    struct comm *c = comm_of(comm_register(real, comm_world()));
    c->seq = 1;
    const struct comm *copy = comm_of(comm_copy(c));
    assert_int_equal(copy->rank, 1);
    assert_memory_equal(copy->world, c->world, sizeof even);
    assert_memory_equal(copy->local, c->local, sizeof even);
    assert_int_not_equal(copy->id, c->id);
    assert_null(copy->handle->real);
    comm_complete((MPI_Comm)(void *)copy->handle, real);
    assert_ptr_equal(copy->handle->real, real);
    assert_ptr_equal(handle_find(HANDLE_COMM, real), copy->handle);
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(members_agree_on_ids),
        TEST(messages_go_to_the_remote_group),
        TEST(each_has_a_clock),
        TEST(rebuilt_in_the_order_of_ids),
        TEST(rebuilt_with_what_it_had),
        TEST(both_groups_are_rebuilt),
        TEST(noted_once),
        TEST(a_freed_one_stays_until_it_is_over),
        TEST(a_freed_one_is_not_rebuilt),
        TEST(others_go_before_it),
        TEST(without_memory_it_stays),
        TEST(a_copy_has_the_members),
    };
    return cmocka_run_group_tests(tests, below_start, NULL);
}
