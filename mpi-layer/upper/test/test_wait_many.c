/*
 * test_wait_many.c - waits and tests for many requests: those that a drain has completed, those that the
 * library has, and those that end by an acknowledgement, in one call (MPI-3.1, 3.7.5).
 */
#include "mpi-layer/upper/wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/request_done.h"
#include "mpi-layer/upper/test/around.h"
#include "mpi-layer/upper/test/below.h"
#include "mpi-layer/upper/test/world.h"

#define MANY 200 /* more than one batch has room for without memory */
#define NOT_TOUCHED 77
enum { PENDING = 1, COMPLETE, FAILED, LATE }; /* numbers of real requests; LATE: after a few looks */

static int looks, looks_until_late;

static int result_of(const void *real, bool *is_done)
{
    bool is_late = real == below_real(LATE) && ++looks >= looks_until_late;
    *is_done = real == below_real(COMPLETE) || real == below_real(FAILED) || is_late;
    return real == below_real(FAILED) ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
}

static int test_one(void **real, int *flag, MPI_Status *status)
{
    bool is_done;
    int code = result_of(*real, &is_done);
    *flag = is_done;
    *status = (MPI_Status){.MPI_SOURCE = 1, .MPI_TAG = 5, .MPI_ERROR = NOT_TOUCHED + 1};
    return code;
}

static int testsome(int count, void *reals[], int *done, int indices[], MPI_Status statuses[])
{
    int result = MPI_SUCCESS;
    *done = 0;
    for (int i = count - 1; i >= 0; i--) { /* in whatever order it likes */
        bool is_done;
        int code = result_of(reals[i], &is_done);
        if (!is_done)
            continue;
        statuses[*done] = (MPI_Status){.MPI_SOURCE = 1, .MPI_TAG = 5, .MPI_ERROR = code};
        indices[(*done)++] = i;
        if (code != MPI_SUCCESS)
            result = MPI_ERR_IN_STATUS;
    }
    return result;
}

static int start(void **state)
{
    BELOW_SET(MPI_Test, test_one);
    BELOW_SET(MPI_Testsome, testsome);
    looks = 0;
    looks_until_late = 4;
    around_start();
    return world_start(state);
}

static MPI_Request receive(int real, int peer)
{
    struct request *r = world_request(REQUEST_RECV, &world_comm, real);
    request_describe(r, NULL, 1, peer, 5);
    return (MPI_Request)(void *)r;
}

/* A drain has found its message. */
static MPI_Request drained(int tag, int error)
{
    struct request *r = world_request(REQUEST_RECV, &world_comm, 0);
    request_set_done(r, error);
    r->must_raise = error != MPI_SUCCESS;
    r->status = (MPI_Status){.MPI_SOURCE = 2, .MPI_TAG = tag};
    return (MPI_Request)(void *)r;
}

static struct request *persistent(void)
{
    world_references++;
    struct request *r = request_new_persistent(REQUEST_RECV, (MPI_Comm)(void *)world_comm.handle, NULL);
    assert_non_null(r);
    return r;
}

static MPI_Request inactive(void)
{
    return (MPI_Request)(void *)persistent();
}

static MPI_Request restarted(int real)
{
    struct request *r = persistent();
    request_activate(r);
    r->real = below_real(real);
    return (MPI_Request)(void *)r;
}

static void clear(MPI_Status statuses[], int count)
{
    for (int i = 0; i < count; i++)
        statuses[i] =
            (MPI_Status){.MPI_SOURCE = NOT_TOUCHED, .MPI_TAG = NOT_TOUCHED, .MPI_ERROR = NOT_TOUCHED};
}

static void check(const MPI_Status *status, int source, int tag, int error)
{
    assert_int_equal(status->MPI_SOURCE, source);
    assert_int_equal(status->MPI_TAG, tag);
    assert_int_equal(status->MPI_ERROR, error);
}

#define CHECK_EMPTY(status, error) check(status, MPI_ANY_SOURCE, MPI_ANY_TAG, error)

static void all_of_every_kind(void **state)
{
    (void)state;
    MPI_Request again = restarted(COMPLETE), idle = inactive();
    MPI_Request r[] = {receive(LATE, 1),    MPI_REQUEST_NULL, drained(8, MPI_SUCCESS), again, idle,
                       receive(COMPLETE, 1)};
    MPI_Status statuses[6];
    clear(statuses, 6);
    assert_int_equal(PMPI_Waitall(6, r, statuses), MPI_SUCCESS);
    check(&statuses[0], 1, 5, MPI_SUCCESS);
    CHECK_EMPTY(&statuses[1], MPI_SUCCESS);
    check(&statuses[2], 2, 8, MPI_SUCCESS);
    check(&statuses[3], 1, 5, MPI_SUCCESS);
    CHECK_EMPTY(&statuses[4], MPI_SUCCESS);
    check(&statuses[5], 1, 5, MPI_SUCCESS);
    for (int i = 0; i < 6; i++)
        assert_ptr_equal(r[i], i == 3 ? again : i == 4 ? idle : MPI_REQUEST_NULL); /* persistent ones stay */
    assert_true(request_is_inactive(request_of(again)));
    assert_null(request_first());
    assert_int_equal(world_comm.pending, 0);
    assert_int_equal(world_comm.peers[1].received, 3);
    assert_int_equal(world_comm.peers[2].received, 0); /* a drain has counted its own */
    clear(statuses, 1);
    assert_int_equal(PMPI_Waitall(1, &r[3], statuses), MPI_SUCCESS); /* inactive now */
    CHECK_EMPTY(&statuses[0], MPI_SUCCESS);
}

static void all_with_errors(void **state)
{
    (void)state;
    MPI_Request r[] = {receive(COMPLETE, 1), receive(FAILED, 1), drained(8, MPI_ERR_TRUNCATE),
                       MPI_REQUEST_NULL};
    MPI_Status statuses[4];
    int raised = around.raised;
    assert_int_equal(PMPI_Waitall(4, r, statuses), MPI_ERR_IN_STATUS);
    assert_int_equal(statuses[0].MPI_ERROR, MPI_SUCCESS);
    assert_int_equal(statuses[1].MPI_ERROR, MPI_ERR_TRUNCATE);
    assert_int_equal(statuses[2].MPI_ERROR, MPI_ERR_TRUNCATE);
    assert_int_equal(statuses[3].MPI_ERROR, MPI_SUCCESS);
    assert_int_equal(around.raised, raised + 1); /* the drained one's: nobody has called the handler for it */
    assert_ptr_equal(around.comm, world_comm.handle);
    r[0] = drained(8, MPI_ERR_TRUNCATE);
    assert_int_equal(PMPI_Waitall(1, r, MPI_STATUSES_IGNORE), MPI_ERR_IN_STATUS);
}

static struct request *waited;

static bool a_line_completes(void)
{
    around.stop = NULL;
    around_order(CONTROL_RUN);
    waited->real = NULL;
    request_complete(waited, &(MPI_Status){.MPI_SOURCE = 2, .MPI_TAG = 9}, MPI_SUCCESS);
    return true;
}

/* A rank that waits when a line comes is stopped there; what the drain completes ends the wait. */
static void all_while_a_line_comes(void **state)
{
    (void)state;
    MPI_Request r[] = {receive(COMPLETE, 1), receive(PENDING, 2), drained(8, MPI_SUCCESS),
                       receive(COMPLETE, 1)};
    MPI_Status statuses[4];
    waited = request_of(r[1]);
    around_order(CONTROL_CONVERGE);
    around.stop = a_line_completes;
    assert_int_equal(PMPI_Waitall(4, r, statuses), MPI_SUCCESS);
    assert_int_equal(around.waits, 1);
    check(&statuses[1], 2, 9, MPI_SUCCESS);
    assert_int_equal(half_control()->state, CONTROL_STATE_RUNNING);
}

static bool a_late_one_goes_on(void)
{
    looks_until_late = looks;
    around.stop = NULL;
    return false;
}

/* While a line converges, it is published whom the rank waits for: all that are not done, by world rank. */
static void whom_all_waits_for(void **state)
{
    (void)state;
    struct request *reversed = world_request(REQUEST_SEND, &world_reverse, LATE);
    request_describe(reversed, NULL, 1, 2, 5); /* rank 0 of the world */
    MPI_Request r[] = {(MPI_Request)(void *)reversed, receive(COMPLETE, 1), receive(LATE, 2)};
    looks_until_late = 1000000;
    around_order(CONTROL_CONVERGE);
    around.stop = a_late_one_goes_on;
    assert_int_equal(PMPI_Waitall(3, r, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    assert_int_equal(around.awaited_count, 3);
    assert_int_equal(around.awaited[0], 0);
    assert_int_equal(around.awaited[1], 1); /* has not been looked at */
    assert_int_equal(around.awaited[2], 2);
    MPI_Request any[] = {receive(LATE, 2), receive(LATE, MPI_ANY_SOURCE)};
    looks_until_late = 1000000;
    around_order(CONTROL_CONVERGE);
    around.stop = a_late_one_goes_on;
    assert_int_equal(PMPI_Waitall(2, any, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    assert_int_equal(around.awaited_count, 0);
}

static void acknowledge(void)
{
    request_acknowledge(waited);
    around.poll = NULL;
}

static MPI_Request held(void)
{
    waited = world_request(REQUEST_SEND, &world_comm, 0);
    request_describe(waited, NULL, 1, 1, 5);
    waited->is_sync = waited->is_held = true;
    around.poll = acknowledge;
    return (MPI_Request)(void *)waited;
}

/* A synchronous send whose message a drain has taken is done when its receiver says so. */
static void acknowledgements_end_waits(void **state)
{
    (void)state;
    int index = -1, flag = 0;
    for (int call = 0; call < 4; call++) {
        MPI_Request r[] = {receive(call ? PENDING : COMPLETE, 1), held(), drained(8, MPI_SUCCESS)};
        MPI_Request first = r[0];
        if (call == 0)
            assert_int_equal(PMPI_Waitall(3, r, MPI_STATUSES_IGNORE), MPI_SUCCESS);
        else if (call == 1)
            assert_int_equal(PMPI_Waitany(2, r, &index, MPI_STATUS_IGNORE), MPI_SUCCESS);
        else if (call == 2)
            assert_int_equal(PMPI_Testall(2, r + 1, &flag, MPI_STATUSES_IGNORE), MPI_SUCCESS);
        else
            assert_int_equal(PMPI_Testany(2, r, &index, &flag, MPI_STATUS_IGNORE), MPI_SUCCESS);
        assert_ptr_equal(r[1], MPI_REQUEST_NULL);
        assert_ptr_equal(r[0], call ? first : MPI_REQUEST_NULL);
        assert_true(call % 2 == 0 || index == 1);
        assert_true(call < 2 || flag);
    }
}

/* A test that finds one pending leaves all as they were: MPI_Testall takes all or none. */
static void test_all_takes_all_or_none(void **state)
{
    (void)state;
    MPI_Request r[] = {receive(COMPLETE, 1), drained(8, MPI_ERR_TRUNCATE), receive(PENDING, 1),
                       receive(COMPLETE, 1)};
    MPI_Request before[4];
    MPI_Status statuses[4];
    int flag = 1;
    memcpy(before, r, sizeof r);
    clear(statuses, 4);
    assert_int_equal(PMPI_Testall(4, r, &flag, statuses), MPI_SUCCESS);
    assert_false(flag);
    assert_memory_equal(before, r, sizeof r);
    check(&statuses[0], NOT_TOUCHED, NOT_TOUCHED, NOT_TOUCHED);
    assert_int_equal(around.raised, 0);
    request_of(r[2])->real = below_real(COMPLETE);
    assert_int_equal(PMPI_Testall(4, r, &flag, statuses), MPI_ERR_IN_STATUS);
    assert_true(flag);
    check(&statuses[0], 1, 5, MPI_SUCCESS);
    check(&statuses[1], 2, 8, MPI_ERR_TRUNCATE);
    check(&statuses[2], 1, 5, MPI_SUCCESS);
    for (int i = 0; i < 4; i++)
        assert_ptr_equal(r[i], MPI_REQUEST_NULL);
    assert_int_equal(PMPI_Testall(4, r, &flag, statuses), MPI_SUCCESS);
    assert_true(flag);
    CHECK_EMPTY(&statuses[1], MPI_SUCCESS);
}

static void any_takes_one(void **state)
{
    (void)state;
    MPI_Request r[] = {MPI_REQUEST_NULL, inactive(), receive(PENDING, 1), receive(LATE, 1), receive(LATE, 1)};
    MPI_Status status;
    int index = -1, flag = 1, found = 0;
    clear(&status, 1);
    assert_int_equal(PMPI_Testany(5, r, &index, &flag, &status), MPI_SUCCESS);
    assert_false(flag);
    assert_int_equal(index, MPI_UNDEFINED);
    check(&status, NOT_TOUCHED, NOT_TOUCHED, NOT_TOUCHED);
    for (int i = 0; i < 2; i++) { /* both are done at the same look: the other one is not lost */
        clear(&status, 1);
        if (i == 0)
            assert_int_equal(PMPI_Waitany(5, r, &index, &status), MPI_SUCCESS);
        else
            assert_int_equal(PMPI_Testany(5, r, &index, &flag, &status), MPI_SUCCESS);
        assert_true(index == 3 || index == 4);
        assert_ptr_equal(r[index], MPI_REQUEST_NULL);
        check(&status, 1, 5, NOT_TOUCHED); /* MPI-3.1, 3.2.5 */
        found |= index;
    }
    assert_true(flag);
    assert_int_equal(found, 3 | 4);
    assert_int_equal(world_comm.peers[1].received, 2);
    assert_int_equal(world_comm.pending, 1);
}

/* One that a drain has completed is found at once, though the library has others that will not end. */
static void any_finds_drained_ones(void **state)
{
    (void)state;
    MPI_Request r[] = {receive(PENDING, 1), drained(8, MPI_ERR_TRUNCATE), drained(9, MPI_SUCCESS)};
    MPI_Status status;
    int index, flag, count, indices[3];
    MPI_Status statuses[3];
    clear(&status, 1);
    assert_int_equal(PMPI_Waitany(3, r, &index, &status), MPI_ERR_TRUNCATE);
    assert_int_equal(index, 1);
    check(&status, 2, 8, NOT_TOUCHED);
    assert_int_equal(around.raised, 1);
    assert_int_equal(PMPI_Testany(3, r, &index, &flag, &status), MPI_SUCCESS);
    assert_int_equal(index, 2);
    r[1] = drained(9, MPI_SUCCESS);
    assert_int_equal(PMPI_Waitsome(3, r, &count, indices, statuses), MPI_SUCCESS);
    assert_int_equal(count, 1);
    assert_int_equal(indices[0], 1);
    check(&statuses[0], 2, 9, MPI_SUCCESS);
}

static void any_of_none_is_undefined(void **state)
{
    (void)state;
    MPI_Request r[] = {MPI_REQUEST_NULL, inactive()};
    MPI_Status status, statuses[2];
    int index = 0, flag = 0, count = 0, indices[2];
    clear(&status, 1);
    assert_int_equal(PMPI_Waitany(2, r, &index, &status), MPI_SUCCESS);
    assert_int_equal(index, MPI_UNDEFINED);
    CHECK_EMPTY(&status, NOT_TOUCHED);
    clear(&status, 1);
    index = 0;
    assert_int_equal(PMPI_Testany(2, r, &index, &flag, &status), MPI_SUCCESS);
    assert_true(flag);
    assert_int_equal(index, MPI_UNDEFINED);
    CHECK_EMPTY(&status, NOT_TOUCHED);
    assert_int_equal(PMPI_Waitsome(2, r, &count, indices, statuses), MPI_SUCCESS);
    assert_int_equal(count, MPI_UNDEFINED);
    count = 0;
    assert_int_equal(PMPI_Testsome(2, r, &count, indices, statuses), MPI_SUCCESS);
    assert_int_equal(count, MPI_UNDEFINED);
    assert_int_equal(PMPI_Waitany(0, NULL, &index, &status), MPI_SUCCESS);
    assert_int_equal(index, MPI_UNDEFINED);
}

static void some_takes_all_that_are_done(void **state)
{
    (void)state;
    MPI_Request idle = inactive();
    MPI_Request r[] = {receive(PENDING, 1), receive(FAILED, 1), idle, drained(8, MPI_SUCCESS),
                       receive(COMPLETE, 1)};
    MPI_Request pending = r[0];
    MPI_Status statuses[5];
    int count = 0, indices[5];
    clear(statuses, 5);
    assert_int_equal(PMPI_Testsome(5, r, &count, indices, statuses), MPI_ERR_IN_STATUS);
    assert_int_equal(count, 3);
    assert_true(indices[0] == 1 && indices[1] == 3 && indices[2] == 4);
    check(&statuses[0], 1, 5, MPI_ERR_TRUNCATE);
    check(&statuses[1], 2, 8, MPI_SUCCESS);
    check(&statuses[2], 1, 5, MPI_SUCCESS);
    check(&statuses[3], NOT_TOUCHED, NOT_TOUCHED, NOT_TOUCHED);
    assert_true(r[0] == pending && r[2] == idle);
    assert_true(r[1] == MPI_REQUEST_NULL && r[3] == MPI_REQUEST_NULL && r[4] == MPI_REQUEST_NULL);
    assert_int_equal(PMPI_Testsome(5, r, &count, indices, statuses), MPI_SUCCESS);
    assert_int_equal(count, 0);
    request_of(r[0])->real = below_real(LATE);
    assert_int_equal(PMPI_Waitsome(5, r, &count, indices, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    assert_int_equal(count, 1);
    assert_int_equal(indices[0], 0);
}

/* All are looked at, also when there is no memory to hand them to the library together. */
static void many_without_memory(void **state)
{
    (void)state;
    for (int is_short = 1; is_short >= 0; is_short--) {
        MPI_Request r[MANY];
        int index = -1, count = 0, indices[MANY];
        for (int i = 0; i < MANY; i++)
            r[i] = receive(i == MANY - 1 || i == 70 ? COMPLETE : PENDING, 1);
        MPI_Request last = r[MANY - 1];
        below_is_memory_short = is_short;
        assert_int_equal(PMPI_Waitany(MANY, r, &index, MPI_STATUS_IGNORE), MPI_SUCCESS);
        assert_int_equal(index, 70);
        assert_ptr_equal(r[MANY - 1], last);
        assert_int_equal(PMPI_Testsome(MANY, r, &count, indices, MPI_STATUSES_IGNORE), MPI_SUCCESS);
        below_is_memory_short = false;
        assert_int_equal(count, 1);
        assert_int_equal(indices[0], MANY - 1);
    }
}

/* A program that polls waits as well: a line can stop it. */
static void failed_tests_are_published(void **state)
{
    (void)state;
    MPI_Request r[] = {receive(PENDING, 1), receive(PENDING, 2)};
    int index, flag = 1, count = 1, indices[2];
    PMPI_Testany(2, r, &index, &flag, MPI_STATUS_IGNORE);
    assert_int_equal(around.waits, 0); /* no line */
    around_order(CONTROL_CONVERGE);
    for (int call = 0; call < 3; call++) {
        half_control()->state = CONTROL_STATE_RUNNING;
        if (call == 0)
            PMPI_Testall(2, r, &flag, MPI_STATUSES_IGNORE);
        else if (call == 1)
            PMPI_Testany(2, r, &index, &flag, MPI_STATUS_IGNORE);
        else
            PMPI_Testsome(2, r, &count, indices, MPI_STATUSES_IGNORE);
        assert_int_equal(around.waits, call + 1);
        assert_int_equal(around.awaited_count, 0);
    }
    assert_true(!flag && count == 0);
    request_of(r[0])->real = below_real(COMPLETE);
    PMPI_Testany(2, r, &index, &flag, MPI_STATUS_IGNORE);
    assert_true(flag);
    assert_int_equal(half_control()->state, CONTROL_STATE_RUNNING);
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_of_every_kind),
        TEST(all_with_errors),
        TEST(all_while_a_line_comes),
        TEST(whom_all_waits_for),
        TEST(acknowledgements_end_waits),
        TEST(test_all_takes_all_or_none),
        TEST(any_takes_one),
        TEST(any_finds_drained_ones),
        TEST(any_of_none_is_undefined),
        TEST(some_takes_all_that_are_done),
        TEST(many_without_memory),
        TEST(failed_tests_are_published),
    };
    return cmocka_run_group_tests(tests, below_start, NULL);
}
