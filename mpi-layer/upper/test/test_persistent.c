/*
 * test_persistent.c - persistent requests: inactive, started, done and inactive again (MPI-3.1, 3.9).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/buffer.h"
#include "mpi-layer/upper/p2p.h"
#include "mpi-layer/upper/request_done.h"
#include "mpi-layer/upper/test/around.h"
#include "mpi-layer/upper/test/below.h"
#include "mpi-layer/upper/test/world.h"

#define COMM ((MPI_Comm)(void *)world_comm.handle)
#define FREED_BY_US 8

static int code_of_init, code_of_start, real_requests, buffered;
static int cancelled;
static struct request *started;
static enum send_mode mode;
static char data[4];
static struct handle type = {.kind = HANDLE_DATATYPE};

/* ---- the library, and what starts a communication ---- */

static int init(const void *buf, int count, void *real_type, int peer, int tag, void *comm, void **request)
{
    (void)real_type;
    assert_true(buf == data && count == 4 && peer == 1 && tag == 5 && comm == world_comm.handle->real);
    if (code_of_init == MPI_SUCCESS) {
        *request = below_real(FREED_BY_US);
        real_requests++;
    }
    return code_of_init;
}

static int free_request(void **request)
{
    assert_ptr_equal(*request, below_real(FREED_BY_US));
    real_requests--;
    *request = NULL;
    return MPI_SUCCESS;
}

static int test(void **real, int *flag, MPI_Status *status)
{
    *flag = *real == below_real(2);
    *status = (MPI_Status){.MPI_SOURCE = 1, .MPI_TAG = 5};
    return MPI_SUCCESS;
}

static int cancel(void **real)
{
    cancelled++;
    *real = below_real(2);
    return MPI_SUCCESS;
}

static int begin(struct request *r)
{
    assert_true(r->buffer == data && r->count == 4 && r->peer == 1 && r->tag == 5 && r->comm == &world_comm);
    assert_true(r->type == (MPI_Datatype)(void *)&type && r->is_active && !r->is_done);
    started = r;
    if (code_of_start == MPI_SUCCESS)
        r->real = below_real(1);
    return code_of_start;
}

int p2p_start_receive(struct request *r)
{
    mode = SEND_NONE;
    return begin(r);
}

int p2p_start_send(struct request *r, enum send_mode m)
{
    mode = m;
    return begin(r);
}

int buffer_send(const void *buf, int count, MPI_Datatype t, int dest, int tag, MPI_Comm comm)
{
    assert_true(buf == data && count == 4 && dest == 1 && tag == 5 && comm == COMM);
    assert_ptr_equal(t, &type);
    buffered++;
    return code_of_start;
}

/* ---- */

/* The library has kept no persistent request. */
static int stop(void **state)
{
    (void)state;
    return real_requests;
}

static int start(void **state)
{
    BELOW_SET(MPI_Send_init, init);
    BELOW_SET(MPI_Ssend_init, init);
    BELOW_SET(MPI_Rsend_init, init);
    BELOW_SET(MPI_Bsend_init, init);
    BELOW_SET(MPI_Recv_init, init);
    BELOW_SET(MPI_Request_free, free_request);
    BELOW_SET(MPI_Test, test);
    BELOW_SET(MPI_Cancel, cancel);
    code_of_init = code_of_start = MPI_SUCCESS;
    real_requests = buffered = cancelled = 0;
    type.references = 0;
    started = NULL;
    around_start();
    return world_start(state);
}

typedef int send_init_f(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static MPI_Request send_new(send_init_f *send_init)
{
    MPI_Request r = MPI_REQUEST_NULL;
    assert_int_equal(send_init(data, 4, (MPI_Datatype)(void *)&type, 1, 5, COMM, &r), MPI_SUCCESS);
    world_references = (int)(world_comm.handle->references + type.references);
    return r;
}

static MPI_Request receive_new(void)
{
    MPI_Request r = MPI_REQUEST_NULL;
    assert_int_equal(PMPI_Recv_init(data, 4, (MPI_Datatype)(void *)&type, 1, 5, COMM, &r), MPI_SUCCESS);
    world_references = (int)(world_comm.handle->references + type.references);
    return r;
}

static void done(MPI_Request request)
{
    request_complete(request_of(request), &(MPI_Status){.MPI_SOURCE = 1, .MPI_TAG = 5}, MPI_SUCCESS);
}

static void check_inactive(MPI_Request request)
{
    MPI_Request r = request;
    MPI_Status status = {.MPI_SOURCE = 7};
    int flag = 0;
    assert_true(request_is_inactive(request_of(request)));
    assert_int_equal(PMPI_Test(&r, &flag, &status), MPI_SUCCESS);
    assert_true(flag && r == request);
    assert_int_equal(status.MPI_SOURCE, MPI_ANY_SOURCE);
    assert_int_equal(status.MPI_TAG, MPI_ANY_TAG);
    assert_int_equal(PMPI_Wait(&r, &status), MPI_SUCCESS); /* returns at once */
    assert_ptr_equal(r, request);
}

/* Nothing is in the library between two starts: a line finds no request there. */
static void an_inactive_one_is_ours_alone(void **state)
{
    (void)state;
    MPI_Request r = receive_new();
    assert_int_equal(real_requests, 0);
    assert_null(started);
    assert_null(request_first());
    assert_int_equal(world_comm.pending, 0);
    check_inactive(r);
    assert_true(world_comm.handle->references == 1 && type.references == 1);
    request_delete(request_of(r));
    assert_true(world_comm.handle->references == 0 && type.references == 0);
}

/* The library finds fault with the arguments, at once. */
static void wrong_arguments_make_none(void **state)
{
    (void)state;
    MPI_Request r = MPI_REQUEST_NULL;
    code_of_init = MPI_ERR_TAG;
    assert_int_equal(PMPI_Recv_init(data, 4, (MPI_Datatype)(void *)&type, 1, 5, COMM, &r), MPI_ERR_TAG);
    assert_int_equal(PMPI_Send_init(data, 4, (MPI_Datatype)(void *)&type, 1, 5, COMM, &r), MPI_ERR_TAG);
    assert_ptr_equal(r, MPI_REQUEST_NULL);
    assert_int_equal(world_comm.handle->references + type.references, 0);
}

static void started_again_and_again(void **state)
{
    (void)state;
    MPI_Request r = receive_new(), same = r;
    for (int i = 0; i < 3; i++) {
        MPI_Status status = {0};
        int flag = 1;
        assert_int_equal(PMPI_Start(&r), MPI_SUCCESS);
        assert_ptr_equal(started, request_of(r));
        assert_int_equal(PMPI_Test(&r, &flag, &status), MPI_SUCCESS);
        assert_false(flag);
        assert_int_equal(world_comm.pending, 1);
        request_of(r)->real = below_real(2);
        assert_int_equal(PMPI_Wait(&r, &status), MPI_SUCCESS);
        assert_ptr_equal(r, same);
        assert_int_equal(status.MPI_SOURCE, 1);
        assert_int_equal(world_comm.pending, 0);
        check_inactive(r);
    }
    assert_int_equal(world_comm.peers[1].received, 3);
    request_delete(request_of(r));
}

static void each_mode_is_its_own(void **state)
{
    (void)state;
    send_init_f *const inits[] = {PMPI_Send_init, PMPI_Ssend_init, PMPI_Rsend_init};
    const enum send_mode modes[] = {SEND_STANDARD, SEND_SYNCHRONOUS, SEND_READY};
    for (int i = 0; i < 3; i++) {
        MPI_Request r = send_new(inits[i]);
        assert_int_equal(PMPI_Start(&r), MPI_SUCCESS);
        assert_int_equal(mode, modes[i]);
        assert_int_equal(request_of(r)->kind, REQUEST_SEND);
        done(r);
        assert_int_equal(PMPI_Wait(&r, MPI_STATUS_IGNORE), MPI_SUCCESS);
        request_delete(request_of(r));
    }
    started = NULL;
    MPI_Request r = send_new(PMPI_Bsend_init);
    int flag = 0;
    assert_int_equal(PMPI_Start(&r), MPI_SUCCESS);
    assert_int_equal(buffered, 1);
    assert_null(started);
    assert_int_equal(PMPI_Test(&r, &flag, MPI_STATUS_IGNORE), MPI_SUCCESS); /* the message is in the buffer */
    assert_true(flag);
    check_inactive(r);
    request_delete(request_of(r));
}

/* Receives match in the order of their starts: so a restart posts them. */
static void listed_in_the_order_of_starts(void **state)
{
    (void)state;
    MPI_Request first = receive_new(), second = receive_new(), third = receive_new();
    MPI_Request both[] = {third, first};
    assert_int_equal(PMPI_Start(&second), MPI_SUCCESS);
    assert_int_equal(PMPI_Startall(2, both), MPI_SUCCESS);
    assert_ptr_equal(request_first(), request_of(second));
    assert_ptr_equal(request_first()->next, request_of(third));
    assert_ptr_equal(request_first()->next->next, request_of(first));
    done(second);
    assert_int_equal(PMPI_Wait(&second, MPI_STATUS_IGNORE), MPI_SUCCESS);
    assert_int_equal(PMPI_Start(&second), MPI_SUCCESS);
    assert_ptr_equal(request_of(first)->next, request_of(second));
    MPI_Request all[] = {first, second, third};
    for (int i = 0; i < 3; i++) {
        done(all[i]);
        request_delete(request_of(all[i]));
    }
}

static void what_cannot_be_started(void **state)
{
    (void)state;
    MPI_Request null = MPI_REQUEST_NULL, active = receive_new();
    MPI_Request ordinary = (MPI_Request)(void *)world_request(REQUEST_RECV, &world_comm, 1);
    assert_int_equal(PMPI_Start(&null), MPI_ERR_REQUEST);
    assert_int_equal(PMPI_Start(&ordinary), MPI_ERR_REQUEST);
    assert_int_equal(PMPI_Start(&active), MPI_SUCCESS);
    assert_int_equal(PMPI_Start(&active), MPI_ERR_REQUEST);
    assert_int_equal(around.raised, 3);
    assert_true(request_of(active)->is_active);
    done(active);
    PMPI_Wait(&active, MPI_STATUS_IGNORE);
    struct ending ending = {0};
    world_comm.ending = &ending; /* the other ranks know how much was sent on it */
    assert_int_equal(PMPI_Start(&active), MPI_ERR_COMM);
    assert_true(request_is_inactive(request_of(active)));
    request_delete(request_of(active));
}

/* One that fails to start is inactive, and those behind it are not started. */
static void a_failing_start(void **state)
{
    (void)state;
    MPI_Request r[] = {send_new(PMPI_Send_init), send_new(PMPI_Bsend_init), send_new(PMPI_Send_init)};
    code_of_start = MPI_ERR_BUFFER;
    assert_int_equal(PMPI_Startall(3, r), MPI_ERR_BUFFER);
    assert_int_equal(PMPI_Start(&r[1]), MPI_ERR_BUFFER);
    for (int i = 0; i < 3; i++)
        check_inactive(r[i]);
    assert_int_equal(world_comm.pending, 0);
    assert_null(request_first());
    assert_ptr_equal(started, request_of(r[0]));
    code_of_start = MPI_SUCCESS;
    assert_int_equal(PMPI_Startall(3, r), MPI_SUCCESS);
    assert_true(request_of(r[0])->is_active && request_of(r[2])->is_active);
    for (int i = 0; i < 3; i++) {
        if (!request_of(r[i])->is_done)
            done(r[i]);
        request_delete(request_of(r[i]));
    }
}

/* The communication of an active one goes on, and the request goes with its end. */
static void freed_while_active(void **state)
{
    (void)state;
    MPI_Request r = receive_new(), idle = receive_new();
    struct request *record = request_of(r);
    assert_int_equal(PMPI_Start(&r), MPI_SUCCESS);
    assert_int_equal(PMPI_Request_free(&r), MPI_SUCCESS);
    assert_ptr_equal(r, MPI_REQUEST_NULL);
    assert_ptr_equal(request_first(), record);
    record->real = below_real(2);
    assert_int_equal(PMPI_Request_free(&idle), MPI_SUCCESS); /* which looks at the others */
    assert_null(request_first());
    assert_int_equal(world_comm.handle->references, 0);
    assert_int_equal(world_comm.peers[1].received, 1);
    assert_int_equal(PMPI_Request_free(&r), MPI_ERR_REQUEST);
    assert_int_equal(around.raised, 1);
}

static void cancelled_ones_can_be_started_again(void **state)
{
    (void)state;
    MPI_Request r = receive_new();
    assert_int_equal(PMPI_Cancel(&r), MPI_SUCCESS); /* inactive: nothing happens */
    assert_int_equal(cancelled, 0);
    assert_int_equal(PMPI_Start(&r), MPI_SUCCESS);
    assert_int_equal(PMPI_Cancel(&r), MPI_SUCCESS);
    assert_int_equal(cancelled, 1);
    assert_true(request_of(r)->is_done);
    assert_int_equal(PMPI_Wait(&r, MPI_STATUS_IGNORE), MPI_SUCCESS);
    assert_int_equal(PMPI_Start(&r), MPI_SUCCESS);
    done(r);
    request_delete(request_of(r));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_inactive_one_is_ours_alone),
        TEST(wrong_arguments_make_none),
        TEST(started_again_and_again),
        TEST(each_mode_is_its_own),
        TEST(listed_in_the_order_of_starts),
        TEST(what_cannot_be_started),
        TEST(a_failing_start),
        TEST(freed_while_active),
        TEST(cancelled_ones_can_be_started_again),
    };
    return cmocka_run_group_tests(tests, below_start, NULL);
}
