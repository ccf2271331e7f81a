/* test_request.c - the records of requests: which are active, in which order, and what each of them keeps. */
#include "mpi-layer/upper/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "mpi-layer/upper/buffer_room.h"
#include "mpi-layer/upper/request_done.h"
#include "mpi-layer/upper/sync.h"
#include "mpi-layer/upper/test/below.h"
#include "mpi-layer/upper/test/world.h"

static void check_order(struct request *const expected[], int count)
{
    struct request *r = request_first();
    for (int i = 0; i < count; i++, r = r->next)
        assert_ptr_equal(r, expected[i]);
    assert_null(r);
}

static void test_order(void **state)
{
    (void)state;
    struct request *r[4];
    for (int i = 0; i < 4; i++)
        r[i] = world_request(REQUEST_RECV, &world_comm, 1);
    check_order(r, 4);
    assert_int_equal(world_comm.pending, 4);
    assert_int_equal(world_references, 4);
    request_delete(r[1]);
    check_order((struct request *[]){r[0], r[2], r[3]}, 3);
    request_delete(r[3]);
    request_delete(r[0]);
    check_order(&r[2], 1);
    assert_int_equal(world_comm.pending, 1);
    assert_int_equal(world_references, 1);
    struct request *again = world_request(REQUEST_SEND, &world_comm, 1);
    assert_ptr_equal(again, r[0]); /* the one that was deleted last is used again */
    check_order((struct request *[]){r[2], again}, 2);
}

static void test_memory(void **state)
{
    (void)state;
    while (request_spare)
        world_request(REQUEST_SEND, &world_comm, 1);
    below_is_memory_short = true;
    assert_null(request_new(REQUEST_SEND, NULL, NULL));
    assert_false(request_reserve());
    below_is_memory_short = false;
    assert_true(request_reserve());
    below_is_memory_short = true;
    assert_non_null(request_new(REQUEST_SEND, NULL, NULL));
    below_is_memory_short = false;
}

static void test_completion(void **state)
{
    (void)state;
    const MPI_Status status = {.MPI_SOURCE = 2, .MPI_TAG = 9};
    struct request *receive = world_request(REQUEST_RECV, &world_comm, 1);
    struct request *send = world_request(REQUEST_SEND, &world_comm, 1);
    request_complete(receive, &status, MPI_ERR_TRUNCATE);
    assert_true(receive->is_done);
    assert_null(receive->real);
    assert_int_equal(receive->error, MPI_ERR_TRUNCATE);
    assert_int_equal(receive->status.MPI_TAG, 9);
    assert_int_equal(world_comm.peers[2].received, 1);
    request_complete(send, &status, MPI_SUCCESS);
    assert_int_equal(world_comm.peers[2].received, 1); /* a send brings nothing */
    assert_int_equal(world_comm.pending, 0);
    check_order((struct request *[]){receive, send}, 2); /* they stay until the program asks */
    request_end(receive);
    check_order(&send, 1);
    assert_int_equal(world_comm.pending, 0);
}

static struct request *synchronous(void)
{
    struct request *r = world_request(REQUEST_SEND, &world_comm, 1);
    request_describe(r, NULL, 0, 1, 5);
    r->is_sync = r->is_special = true;
    assert_true(sync_reserve());
    sync_begin(r);
    return r;
}

/* While ranks stop, a drain may have the message of a synchronous send: it is done when the receiver says so.
 */
static void test_held(void **state)
{
    (void)state;
    struct request *before = synchronous(), *r = synchronous(), *late = synchronous();
    assert_int_equal(world_comm.peers[1].pending_sync, 3);
    request_complete(before, &request_empty_status, MPI_SUCCESS);
    assert_true(before->is_done);
    assert_int_equal(world_comm.peers[1].pending_sync, 2);
    half_control()->command = CONTROL_STOP;
    request_complete(r, &request_empty_status, MPI_SUCCESS);
    late->is_held = true;
    half_control()->command = CONTROL_RUN;
    assert_false(r->is_done);
    assert_true(r->is_held);
    assert_null(r->real);
    assert_int_equal(world_comm.pending, 2);
    request_acknowledge(r);
    assert_true(r->is_done);
    assert_false(r->is_held);
    assert_int_equal(world_comm.pending, 1);
    assert_int_equal(world_comm.peers[1].pending_sync, 1);
    request_acknowledge(late); /* the library has it still: that says when it is done */
    assert_false(late->is_done);
    assert_false(late->is_held);
    request_complete(late, &request_empty_status, MPI_SUCCESS);
    assert_true(late->is_done);
    assert_int_equal(world_comm.peers[1].pending_sync, 0);
}

static void test_persistent(void **state)
{
    (void)state;
    world_references++; /* request_new_persistent() keeps the communicator */
    struct request *r = request_new_persistent(REQUEST_RECV, (MPI_Comm)(void *)world_comm.handle, NULL);
    assert_true(request_is_inactive(r));
    assert_true(r->is_done); /* what waits and tests are to see of an inactive one */
    assert_null(request_first());
    assert_int_equal(world_comm.pending, 0);
    for (int start = 0; start < 2; start++) {
        request_activate(r);
        check_order(&r, 1);
        assert_false(r->is_done);
        assert_int_equal(world_comm.pending, 1);
        request_complete(r, &(MPI_Status){.MPI_SOURCE = 1}, MPI_ERR_TRUNCATE);
        request_end(r);
        assert_null(request_first());
        assert_int_equal(r->error, MPI_SUCCESS);
        assert_int_equal(r->status.MPI_SOURCE, MPI_ANY_SOURCE);
    }
    assert_int_equal(world_references, 1);
    request_delete(r);
    assert_int_equal(world_references, 0);
}

static void test_abandoned(void **state)
{
    (void)state;
    struct request *r[3];
    for (int i = 0; i < 3; i++) {
        r[i] = world_request(REQUEST_SEND, &world_comm, 1);
        request_abandon(r[i]);
    }
    request_reap(r[0]); /* is not done */
    assert_ptr_equal(request_first_orphan(), r[0]);
    request_put_behind(r[0]);
    assert_ptr_equal(request_first_orphan(), r[1]);
    assert_ptr_equal(r[1]->next_orphan, r[2]);
    assert_ptr_equal(r[2]->next_orphan, r[0]);
    assert_null(r[0]->next_orphan);
    for (int i = 2; i >= 0; i--) {
        request_complete(r[i], &request_empty_status, MPI_SUCCESS);
        request_reap(r[i]);
    }
    assert_null(request_first_orphan());
    assert_null(request_first());
}

static void test_what_it_keeps(void **state)
{
    (void)state;
    struct handle op = {.kind = HANDLE_OP}, type = {.kind = HANDLE_DATATYPE};
    world_references += 3;
    MPI_Request reduction = request_new_collective_owning(below_real(1), (MPI_Comm)(void *)world_comm.handle,
                                                          malloc(10)); /* freed: a leak check sees it */
    request_keep(reduction, (MPI_Datatype)(void *)&type, (MPI_Op)(void *)&op);
    assert_int_equal(op.references, 1);
    assert_int_equal(type.references, 1);
    struct request *r = request_of(reduction);
    r->number = 7;
    world_numbers = 1;
    r->buffered_bytes = 100;
    buffer_room_take(100);
    request_delete(r);
    assert_int_equal(op.references, 0);
    assert_int_equal(type.references, 0);
    assert_int_equal(world_references, 0);
    assert_int_equal(world_numbers, 0);
    assert_false(buffer_room_is_used());
    struct request *next = world_request(REQUEST_SEND, &world_comm, 1);
    assert_ptr_equal(next, r);
    assert_false(next->is_special);
    assert_null(next->op);
    assert_null(next->to_free);
    assert_int_equal(next->buffered_bytes, 0);
}

/* What the library completes at once is one request for all, which nobody can delete. */
static void test_sent_at_once(void **state)
{
    (void)state;
    extern void *request_real_empty;
    request_real_empty = below_real(3);
    assert_true(request_is_at_once(below_real(3)));
    assert_false(request_is_at_once(below_real(4)));
    assert_false(request_is_at_once(NULL));
    request_end(&request_sent);
    assert_true(request_sent.is_active && request_sent.is_done);
    assert_null(request_first());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_order, world_start),
        cmocka_unit_test_setup(test_memory, world_start),
        cmocka_unit_test_setup(test_completion, world_start),
        cmocka_unit_test_setup(test_held, world_start),
        cmocka_unit_test_setup(test_persistent, world_start),
        cmocka_unit_test_setup(test_abandoned, world_start),
        cmocka_unit_test_setup(test_what_it_keeps, world_start),
        cmocka_unit_test_setup(test_sent_at_once, world_start),
    };
    return cmocka_run_group_tests(tests, below_start, NULL);
}
