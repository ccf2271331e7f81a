/*
 * test_comm_calls.c - functions that make and end communicators: what a duplicate takes over, what a failure
 * leaves, and that each passes the gate of the lines (docs/mpi-support.md; MPI-3.1, 6.4).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/attr.h"
#include "mpi-layer/upper/collective.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/meet.h"
#include "mpi-layer/upper/request.h"
#include "mpi-layer/upper/test/around.h"
#include "mpi-layer/upper/test/below.h"
#include "mpi-layer/upper/test/world.h"
#include "mpi-layer/upper/wait.h"

#define COMM ((MPI_Comm)(void *)world_comm.handle)

static char steps[300];
static struct comm made; /* what a call makes */
static struct handle made_handle;
#define MADE ((MPI_Comm)(void *)&made_handle)
static int code_of_library, code_of_attributes, code_of_end, code_of_fill;
static bool is_out_of_memory, is_null_made;
static int inside; /* the gate */

static void step(const char *name)
{
    sprintf(steps + strlen(steps), "%s; ", name);
}

void collective_enter_as(MPI_Comm comm, const char *function)
{
    (void)comm;
    (void)function;
    inside++;
    step("enter");
}

void collective_leave(MPI_Comm comm)
{
    (void)comm;
    inside--;
    step("leave");
}

static int make(void **real)
{
    assert_int_equal(inside, 1); /* a collective of the library's, which a line must not cut in two */
    step("library");
    *real = code_of_library == MPI_SUCCESS ? is_null_made ? api_real(MPI_COMM_NULL) : below_real(30) : NULL;
    return code_of_library;
}

static int dup(void *comm, void **real)
{
    assert_ptr_equal(comm, world_comm.handle->real);
    return make(real);
}

static int dup_with_info(void *comm, void *info, void **real)
{
    (void)info;
    return dup(comm, real);
}

static int split(void *comm, int color, int key, void **real)
{
    (void)color;
    (void)key;
    return dup(comm, real);
}

static int idup(void *comm, void **real, void **request)
{
    *request = below_real(31);
    return dup(comm, real);
}

static int create_group(void *comm, void *group, int tag, void **real)
{
    (void)comm;
    (void)group;
    (void)tag;
    if (!inside) { /* not a member */
        step("alone");
        *real = api_real(MPI_COMM_NULL);
        return code_of_library;
    }
    return make(real);
}

static int group_size(void *group, int *size)
{
    (void)group;
    *size = 2;
    return MPI_SUCCESS;
}

static int own_rank;

static int group_rank(void *group, int *rank)
{
    (void)group;
    *rank = own_rank;
    return MPI_SUCCESS;
}

static int group_excl(void *group, int count, const int *ranks, void **copy)
{
    assert_true(count == 0 && !ranks);
    *copy = group;
    return MPI_SUCCESS;
}

static int comm_free_real(void **real)
{
    (void)real;
    step("library frees");
    return MPI_ERR_COMM;
}

static int set_info(void *comm, void *info)
{
    (void)comm;
    (void)info;
    return code_of_library;
}

/* ---- the records ---- */

MPI_Comm comm_register(void *real, struct comm *parent)
{
    assert_ptr_equal(parent, &world_comm);
    assert_int_equal(inside, 1);
    step("register");
    if (real == api_real(MPI_COMM_NULL))
        return MPI_COMM_NULL;
    return is_out_of_memory ? NULL : MADE;
}

MPI_Comm comm_copy(struct comm *parent)
{
    assert_ptr_equal(parent, &world_comm);
    return is_out_of_memory ? NULL : MADE;
}

int comm_fill(struct comm *c, void *real)
{
    assert_true(c == &made && real == below_real(30));
    step("fill");
    return code_of_fill;
}

void comm_unregister(struct comm *c)
{
    assert_ptr_equal(c, &made);
    step("unregister");
}

int *comm_members(void *group, int size)
{
    (void)group;
    return arena_alloc((size_t)size * sizeof(int));
}

int comm_end(struct comm *c)
{
    (void)c;
    assert_int_equal(inside, 1);
    step("end");
    return code_of_end;
}

void comm_reap(void)
{
    assert_int_equal(inside, 1);
    step("reap");
}

MPI_Comm meet_group(const int *world, int size, int rank)
{
    (void)world;
    assert_true(size == 2 && rank == own_rank);
    step("meet");
    if (is_out_of_memory)
        return NULL;
    collective_enter(MADE);
    return MADE;
}

MPI_Comm meet_groups(const int *world, int size, int rank, int leader, int remote_leader_world)
{
    (void)world;
    assert_true(size == WORLD_RANKS && rank == 0 && leader == 0 &&
                remote_leader_world == 2); /* by world rank */
    return meet_group(world, 2, own_rank);
}

static int intercomm_create(void *local, int leader, void *peer, int remote, int tag, void **real)
{
    (void)local;
    (void)leader;
    (void)peer;
    (void)remote;
    (void)tag;
    return make(real);
}

int attr_copy_all(void *from, void *to)
{
    assert_true(from == world_comm.handle && to == &made_handle);
    assert_int_equal(inside, 0); /* functions of the application, which may call MPI */
    step("copy attributes");
    return code_of_attributes;
}

int attr_delete_all(void *handle)
{
    (void)handle;
    assert_int_equal(inside, 0);
    step("delete attributes");
    return code_of_attributes;
}

void wait_idle(const struct comm *c)
{
    assert_ptr_equal(c, &world_comm);
    step("wait");
}

int handle_set_name(void *handle, const char *name)
{
    (void)handle;
    (void)name;
    return is_out_of_memory ? -1 : 0;
}

static int set_name(void *comm, const char *name)
{
    (void)comm;
    (void)name;
    return code_of_library;
}

static int start(void **state)
{
    BELOW_SET(MPI_Comm_dup, dup);
    BELOW_SET(MPI_Comm_dup_with_info, dup_with_info);
    BELOW_SET(MPI_Comm_split, split);
    BELOW_SET(MPI_Comm_idup, idup);
    BELOW_SET(MPI_Comm_create_group, create_group);
    BELOW_SET(MPI_Group_size, group_size);
    BELOW_SET(MPI_Group_rank, group_rank);
    BELOW_SET(MPI_Group_excl, group_excl);
    BELOW_SET(MPI_Comm_free, comm_free_real);
    BELOW_SET(MPI_Comm_set_info, set_info);
    BELOW_SET(MPI_Comm_set_name, set_name);
    BELOW_SET(MPI_Intercomm_create, intercomm_create);
    *(void **)(void *)MPI_COMM_NULL = below_real(29);
    code_of_library = code_of_attributes = code_of_end = code_of_fill = MPI_SUCCESS;
    is_out_of_memory = is_null_made = false;
    own_rank = 1;
    steps[0] = 0;
    around_start();
    world_start(state);
    made = (struct comm){.handle = &made_handle};
    made_handle = (struct handle){.kind = HANDLE_COMM, .record = &made};
    return 0;
}

static int stop(void **state)
{
    (void)state;
    return inside;
}

static void a_duplicate_takes_over(void **state)
{
    (void)state;
    MPI_Comm new = MPI_COMM_NULL;
    assert_int_equal(PMPI_Comm_dup(COMM, &new), MPI_SUCCESS);
    assert_ptr_equal(new, MADE);
    assert_string_equal(steps, "enter; library; register; reap; leave; copy attributes; ");
    assert_false(made.has_hints);
    world_comm.has_hints = true;
    assert_int_equal(PMPI_Comm_dup(COMM, &new), MPI_SUCCESS);
    assert_true(made.has_hints);
    made.has_hints = world_comm.has_hints = false;
    assert_int_equal(PMPI_Comm_dup_with_info(COMM, MPI_INFO_NULL, &new), MPI_SUCCESS);
    assert_true(made.has_hints); /* its own */
}

static void a_part_of_a_split_is_new(void **state)
{
    (void)state;
    MPI_Comm new = NULL;
    assert_int_equal(PMPI_Comm_split(COMM, 1, 0, &new), MPI_SUCCESS);
    assert_string_equal(steps, "enter; library; register; reap; leave; "); /* attributes are of the whole */
    is_null_made = true;
    assert_int_equal(PMPI_Comm_split(COMM, MPI_UNDEFINED, 0, &new), MPI_SUCCESS);
    assert_ptr_equal(new, MPI_COMM_NULL);
}

static void one_that_fails_makes_none(void **state)
{
    (void)state;
    MPI_Comm new = COMM;
    code_of_library = MPI_ERR_COMM;
    assert_int_equal(PMPI_Comm_dup(COMM, &new), MPI_ERR_COMM);
    assert_string_equal(steps, "enter; library; reap; leave; ");
    assert_int_equal(around.raised, 0); /* the library has */
    code_of_library = MPI_SUCCESS;
    is_out_of_memory = true;
    assert_int_equal(PMPI_Comm_dup(COMM, &new), MPI_ERR_NO_MEM);
    assert_int_equal(around.raised, 1);
    assert_ptr_equal(new, COMM);
    is_out_of_memory = false;
    code_of_attributes = MPI_ERR_INTERN;
    assert_int_equal(PMPI_Comm_dup(COMM, &new), MPI_ERR_INTERN);
    assert_int_equal(around.raised, 2);
    assert_ptr_equal(around.comm, COMM);
}

static void an_immediate_duplicate(void **state)
{
    (void)state;
    MPI_Comm new = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    assert_int_equal(PMPI_Comm_idup(COMM, &new, &request), MPI_SUCCESS);
    assert_ptr_equal(new, MADE);
    assert_true(made.is_incomplete);
    assert_ptr_equal(made_handle.real, below_real(30));
    assert_ptr_equal(request_of(request)->made, &made_handle);
    assert_ptr_equal(request_of(request)->real, below_real(31));
    assert_string_equal(steps, "enter; library; leave; copy attributes; ");
    world_references++;
}

/* Neither a request nor a communicator is left, whatever of the two there was no memory for. */
static void an_immediate_duplicate_that_fails(void **state)
{
    (void)state;
    MPI_Comm new = COMM;
    MPI_Request request = MPI_REQUEST_NULL;
    code_of_library = MPI_ERR_COMM;
    world_references = 1;
    assert_int_equal(PMPI_Comm_idup(COMM, &new, &request), MPI_ERR_COMM);
    assert_int_equal(around.raised, 0); /* the library has */
    assert_ptr_equal(request, MPI_REQUEST_NULL);
    assert_null(request_first()); /* a line would look at it */
    assert_non_null(strstr(steps, "unregister; "));
    assert_ptr_equal(new, COMM);
    code_of_library = MPI_SUCCESS;
    is_out_of_memory = true;
    steps[0] = 0;
    world_references = 1;
    assert_int_equal(PMPI_Comm_idup(COMM, &new, &request), MPI_ERR_NO_MEM);
    assert_int_equal(around.raised, 1);
    assert_null(request_first());
    assert_null(strstr(steps, "library"));
    assert_ptr_equal(new, COMM);
    assert_int_equal(world_comm.pending, 0);
}

/* Members meet first, and pass the gate of the new one; others are not waited for. */
static void of_a_group(void **state)
{
    (void)state;
    MPI_Comm new = NULL;
    int blocks = below_blocks;
    assert_int_equal(PMPI_Comm_create_group(COMM, MPI_GROUP_EMPTY, 0, &new), MPI_SUCCESS);
    assert_ptr_equal(new, MADE);
    assert_string_equal(steps, "meet; enter; library; fill; reap; leave; copy attributes; ");
    own_rank = MPI_UNDEFINED;
    steps[0] = 0;
    assert_int_equal(PMPI_Comm_create_group(COMM, MPI_GROUP_EMPTY, 0, &new), MPI_SUCCESS);
    assert_string_equal(steps, "alone; ");
    assert_ptr_equal(new, MPI_COMM_NULL);
    own_rank = 1;
    steps[0] = 0;
    code_of_library = MPI_ERR_GROUP;
    new = COMM;
    assert_int_equal(PMPI_Comm_create_group(COMM, MPI_GROUP_EMPTY, 0, &new), MPI_ERR_GROUP);
    assert_string_equal(steps, "meet; enter; library; unregister; reap; leave; ");
    code_of_library = MPI_SUCCESS;
    code_of_fill = -1;
    assert_int_equal(PMPI_Comm_create_group(COMM, MPI_GROUP_EMPTY, 0, &new), MPI_ERR_NO_MEM);
    assert_ptr_equal(new, COMM);
    assert_int_equal(below_blocks, blocks);
}

static void of_two_groups(void **state)
{
    (void)state;
    MPI_Comm new = NULL, peers = (MPI_Comm)(void *)world_reverse.handle;
    assert_int_equal(PMPI_Intercomm_create(COMM, 0, peers, 0, 5, &new), MPI_SUCCESS);
    assert_ptr_equal(new, MADE);
    assert_int_equal(PMPI_Intercomm_create(COMM, 0, peers, WORLD_RANKS, 5, &new), MPI_ERR_RANK);
    assert_int_equal(PMPI_Intercomm_create(COMM, 0, NULL, 0, 5, &new), MPI_ERR_COMM);
    assert_int_equal(PMPI_Intercomm_create(NULL, 0, peers, 0, 5, &new), MPI_ERR_COMM);
    assert_int_equal(around.raised, 3);
}

/* Attributes go before anything else, and one that does not keeps the communicator (MPI-3.1, 6.7.2). */
static void freed(void **state)
{
    (void)state;
    MPI_Comm comm = COMM;
    code_of_attributes = MPI_ERR_INTERN;
    assert_int_equal(PMPI_Comm_free(&comm), MPI_ERR_INTERN);
    assert_string_equal(steps, "delete attributes; ");
    assert_ptr_equal(comm, COMM);
    code_of_attributes = MPI_SUCCESS;
    code_of_end = MPI_ERR_NO_MEM;
    assert_int_equal(PMPI_Comm_free(&comm), MPI_ERR_NO_MEM);
    assert_ptr_equal(comm, COMM);
    assert_int_equal(around.raised, 2);
    code_of_end = MPI_SUCCESS;
    steps[0] = 0;
    assert_int_equal(PMPI_Comm_disconnect(&comm), MPI_SUCCESS);
    assert_string_equal(steps, "wait; delete attributes; enter; end; reap; leave; ");
    assert_ptr_equal(comm, MPI_COMM_NULL);
}

static void predefined_ones_stay(void **state)
{
    (void)state;
    MPI_Comm comm = COMM, null = MPI_COMM_NULL;
    world_comm.handle->is_predefined = 1;
    assert_int_equal(PMPI_Comm_free(&comm), MPI_ERR_COMM);
    assert_int_equal(PMPI_Comm_free(&null), MPI_ERR_COMM);
    assert_string_equal(steps, "library frees; library frees; ");
    assert_ptr_equal(comm, COMM);
}

/* Hints that are set later are to be noted again at the next line. */
static void hints_and_names(void **state)
{
    (void)state;
    world_comm.are_hints_noted = true;
    code_of_library = MPI_ERR_INFO;
    assert_int_equal(PMPI_Comm_set_info(COMM, MPI_INFO_NULL), MPI_ERR_INFO);
    assert_true(world_comm.are_hints_noted);
    code_of_library = MPI_SUCCESS;
    assert_int_equal(PMPI_Comm_set_info(COMM, MPI_INFO_NULL), MPI_SUCCESS);
    assert_true(world_comm.has_hints && !world_comm.are_hints_noted);
    is_out_of_memory = true;
    assert_int_equal(PMPI_Comm_set_name(COMM, "name"), MPI_ERR_NO_MEM);
}

static void size_is_the_own_groups(void **state)
{
    (void)state;
    int size = 0, rank = -1;
    made.size = 5;
    made.rank = 1;
    assert_int_equal(PMPI_Comm_size(MADE, &size), MPI_SUCCESS);
    assert_int_equal(size, 5);
    made.local_size = 2; /* an intercommunicator */
    assert_int_equal(PMPI_Comm_size(MADE, &size), MPI_SUCCESS);
    assert_int_equal(size, 2);
    assert_int_equal(PMPI_Comm_rank(MADE, &rank), MPI_SUCCESS);
    assert_int_equal(rank, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_duplicate_takes_over),
        TEST(a_part_of_a_split_is_new),
        TEST(one_that_fails_makes_none),
        TEST(an_immediate_duplicate),
        TEST(an_immediate_duplicate_that_fails),
        TEST(of_a_group),
        TEST(of_two_groups),
        TEST(freed),
        TEST(predefined_ones_stay),
        TEST(hints_and_names),
        TEST(size_is_the_own_groups),
    };
    return cmocka_run_group_tests(tests, below_start, NULL);
}
