/* test_flight.c - what the library still has of requests is completed, sends in their order, receives
 * together. */
#include "mpi-layer/upper/flight.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/test/below.h"
#include "mpi-layer/upper/test/world.h"

#define MANY 600 /* several batches */
#define PENDING 1
#define COMPLETE 2
#define FAILED 3

static struct {
    int tests; /* of single requests */
    int handler_sets, handler_frees;
    void *handler; /* of MPI_COMM_WORLD */
} library;

static int test_one(void **real, int *flag, MPI_Status *status)
{
    library.tests++;
    *flag = *real == below_real(COMPLETE);
    *status = (MPI_Status){.MPI_SOURCE = 1};
    return *real == below_real(FAILED) ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int testsome(int count, void *reals[], int *done, int indices[], MPI_Status statuses[])
{
    int code = MPI_SUCCESS;
    assert_true(count <= 256);
    *done = 0;
    for (int i = 0; i < count; i++) {
        if (reals[i] == below_real(PENDING))
            continue;
        statuses[*done] = (MPI_Status){.MPI_SOURCE = 1};
        if (reals[i] == below_real(FAILED)) {
            statuses[*done].MPI_ERROR = MPI_ERR_TRUNCATE;
            code = MPI_ERR_IN_STATUS;
        }
        indices[(*done)++] = i;
        reals[i] = NULL;
    }
    return code;
}

static int get_errhandler(void *comm, void **handler)
{
    assert_ptr_equal(comm, world_comm.handle->real);
    *handler = library.handler;
    return MPI_SUCCESS;
}

static int set_errhandler(void *comm, void *handler)
{
    assert_ptr_equal(comm, world_comm.handle->real);
    library.handler = handler;
    library.handler_sets++;
    return MPI_SUCCESS;
}

static int free_errhandler(void **handler)
{
    library.handler_frees++;
    *handler = NULL;
    return MPI_SUCCESS;
}

static int start(void **state)
{
    library.tests = library.handler_sets = library.handler_frees = 0;
    library.handler = below_real(20);
    *(void **)(void *)MPI_ERRORS_RETURN = below_real(21);
    BELOW_SET(MPI_Test, test_one);
    BELOW_SET(MPI_Testsome, testsome);
    BELOW_SET(MPI_Comm_get_errhandler, get_errhandler);
    BELOW_SET(MPI_Comm_set_errhandler, set_errhandler);
    BELOW_SET(MPI_Errhandler_free, free_errhandler);
    return world_start(state);
}

static void test_which(void **state)
{
    (void)state;
    struct flight flight;
    struct request *send = world_request(REQUEST_SEND, &world_comm, PENDING);
    struct request *receive = world_request(REQUEST_RECV, &world_comm, PENDING);
    struct request *reduction = world_request(REQUEST_COLLECTIVE, &world_comm, PENDING);
    world_request(REQUEST_GENERALIZED, &world_comm, 0); /* the library has no part in it */
    request_set_done(world_request(REQUEST_SEND, &world_comm, PENDING), MPI_SUCCESS);
    int blocks = below_blocks;
    assert_int_equal(flight_begin(&flight), 0);
    assert_int_equal(flight.receive_count, 1);
    assert_ptr_equal(flight.receives[0], receive);
    assert_int_equal(flight.other_count, 2);
    assert_ptr_equal(flight.others[0], send);
    assert_ptr_equal(flight.others[1], reduction);
    flight_end(&flight);
    assert_int_equal(below_blocks, blocks);
}

/* One that has not ended keeps those behind it from being asked for. */
static void test_sends(void **state)
{
    (void)state;
    struct flight flight;
    struct request *r[3];
    for (int i = 0; i < 3; i++)
        r[i] = world_request(REQUEST_SEND, &world_comm, i == 1 ? PENDING : COMPLETE);
    assert_int_equal(flight_begin(&flight), 0);
    assert_true(flight_test_others(&flight));
    assert_true(r[0]->is_done);
    assert_false(r[1]->is_done || r[2]->is_done);
    assert_int_equal(library.tests, 2);
    assert_true(flight_test_others(&flight));
    assert_int_equal(library.tests, 3); /* the first is not asked for again */
    r[1]->real = below_real(FAILED);
    assert_false(flight_test_others(&flight));
    assert_true(r[1]->is_done && r[2]->is_done);
    assert_int_equal(r[1]->error, MPI_ERR_OTHER);
    assert_true(r[1]->must_raise);
    assert_false(r[2]->must_raise);
    flight_end(&flight);
}

static void test_receives(void **state)
{
    (void)state;
    struct flight flight;
    struct request *r[MANY];
    for (int i = 0; i < MANY; i++)
        r[i] = world_request(REQUEST_RECV, &world_comm, i == 300 ? FAILED : i % 3 ? PENDING : COMPLETE);
    assert_int_equal(flight_begin(&flight), 0);
    flight_test_receives(&flight);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(r[i]->is_done, i % 3 == 0);
    assert_int_equal(r[300]->error, MPI_ERR_TRUNCATE);
    assert_true(r[300]->must_raise);
    assert_int_equal(r[297]->error, MPI_SUCCESS); /* of the same batch */
    assert_int_equal(world_comm.peers[1].received, MANY / 3);
    assert_int_equal(flight.receive_count, MANY - MANY / 3);
    assert_ptr_equal(flight.receives[2], r[4]);
    assert_ptr_equal(flight.real[2], below_real(PENDING));
    flight.real[2] = below_real(COMPLETE);
    flight_test_receives(&flight);
    assert_true(r[4]->is_done);
    assert_false(r[2]->is_done || r[5]->is_done);
    assert_int_equal(flight.receive_count, MANY - MANY / 3 - 1);
    flight_end(&flight);
}

/* Errors come back to us as long as the drain lasts: on communicators with requests, and those that are
 * named. */
static void test_quiet(void **state)
{
    (void)state;
    struct flight flight;
    world_request(REQUEST_RECV, &world_comm, PENDING);
    assert_int_equal(flight_begin(&flight), 0);
    assert_ptr_equal(library.handler, below_real(21));
    flight_quiet(&world_comm); /* a second time: nothing more is put aside */
    assert_int_equal(library.handler_sets, 1);
    flight_end(&flight);
    assert_ptr_equal(library.handler, below_real(20));
    assert_int_equal(library.handler_frees, 1);
    flight_end(&(struct flight){0});
    assert_int_equal(library.handler_sets, 2);
}

static void test_without_memory(void **state)
{
    (void)state;
    struct flight flight;
    int blocks = below_blocks;
    below_is_memory_short = true;
    assert_int_equal(flight_begin(&flight), -1);
    below_is_memory_short = false;
    assert_int_equal(flight.receive_count + flight.other_count, 0);
    flight_end(&flight);
    assert_int_equal(below_blocks, blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_which, start),          cmocka_unit_test_setup(test_sends, start),
        cmocka_unit_test_setup(test_receives, start),       cmocka_unit_test_setup(test_quiet, start),
        cmocka_unit_test_setup(test_without_memory, start),
    };
    return cmocka_run_group_tests(tests, below_start, NULL);
}
