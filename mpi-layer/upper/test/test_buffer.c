/*
 * test_buffer.c - buffered sends: the message is copied and the call returns, with as much room as the
 * attached buffer has (MPI-3.1, 3.6).
 */
#include "mpi-layer/upper/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/buffer_room.h"
#include "mpi-layer/upper/p2p.h"
#include "mpi-layer/upper/request_done.h"
#include "mpi-layer/upper/test/around.h"
#include "mpi-layer/upper/test/below.h"
#include "mpi-layer/upper/test/world.h"

#define COMM ((MPI_Comm)(void *)world_comm.handle)
#define MESSAGE_BYTES 8
#define ROOM (2 * (MESSAGE_BYTES + MPI_BSEND_OVERHEAD)) /* what a program counts for two */

static char attached[ROOM];
static struct request *sent[4];
static int sends, code_of_start, code_of_pack, looks_until_done, plain_sends;
static bool at_once;

/* Bytes of any type. */
int PMPI_Pack_size(int count, MPI_Datatype type, MPI_Comm comm, int *size)
{
    (void)type;
    (void)comm;
    *size = count;
    return MPI_SUCCESS;
}

int PMPI_Pack(const void *in, int count, MPI_Datatype type, void *out, int size, int *position, MPI_Comm comm)
{
    (void)type;
    (void)comm;
    assert_true(*position + count <= size);
    memcpy((char *)out + *position, in, (size_t)count);
    *position += count;
    return code_of_pack;
}

int p2p_start_send(struct request *r, enum send_mode mode)
{
    assert_int_equal(mode, SEND_STANDARD);
    if (code_of_start != MPI_SUCCESS)
        return code_of_start;
    sent[sends++] = r;
    r->real = below_real(1);
    if (at_once)
        request_complete(r, &request_empty_status, MPI_SUCCESS);
    return MPI_SUCCESS;
}

static int plain_send(const void *buf, int count, void *type, int dest, int tag, void *comm)
{
    (void)buf;
    (void)count;
    (void)type;
    (void)tag;
    (void)comm;
    assert_int_equal(dest, MPI_PROC_NULL);
    plain_sends++;
    return MPI_SUCCESS;
}

static int test(void **real, int *flag, MPI_Status *status)
{
    *flag = *real == below_real(2) || (looks_until_done && --looks_until_done == 0);
    *status = request_empty_status;
    return MPI_SUCCESS;
}

static int start(void **state)
{
    BELOW_SET(MPI_Send, plain_send);
    BELOW_SET(MPI_Test, test);
    sends = code_of_start = code_of_pack = looks_until_done = plain_sends = 0;
    at_once = false;
    around_start();
    world_start(state);
    assert_false(buffer_room_is_used());
    return PMPI_Buffer_attach(attached, ROOM);
}

static int stop(void **state)
{
    void *address;
    int size;
    (void)state;
    struct request *r;
    while ((r = request_first_orphan())) {
        if (!r->is_done)
            request_complete(r, &request_empty_status, MPI_SUCCESS);
        request_reap(r);
    }
    if (buffer_room_attached(NULL))
        PMPI_Buffer_detach(&address, &size);
    return buffer_room_is_used();
}

static int send(const char *text, int bytes)
{
    char own[64] = "";
    strcpy(own, text);
    int code = PMPI_Bsend(own, bytes, MPI_BYTE, 1, 5, COMM);
    memset(own, 'x', sizeof own); /* the program may use its memory again */
    return code;
}

static void the_message_is_a_copy(void **state)
{
    (void)state;
    assert_int_equal(send("first", MESSAGE_BYTES), MPI_SUCCESS);
    assert_int_equal(send("second", MESSAGE_BYTES), MPI_SUCCESS);
    assert_int_equal(sends, 2);
    assert_string_equal(sent[0]->buffer, "first");
    assert_string_equal(sent[1]->buffer, "second");
    assert_true(sent[0]->peer == 1 && sent[0]->tag == 5 && sent[0]->count == MESSAGE_BYTES);
    assert_ptr_equal(request_first_orphan(), sent[0]); /* nobody waits for it */
}

/* Two have room, a third one does not; those that have left make room. */
static void no_more_than_the_room(void **state)
{
    (void)state;
    send("first", MESSAGE_BYTES);
    send("second", MESSAGE_BYTES);
    assert_int_equal(send("third", 2 * MPI_BSEND_OVERHEAD), MPI_ERR_BUFFER);
    assert_int_equal(around.raised, 1);
    assert_int_equal(around.code, MPI_ERR_BUFFER);
    assert_ptr_equal(around.comm, COMM);
    assert_int_equal(sends, 2);
    sent[1]->real = below_real(2);
    sent[0]->real = below_real(2);
    assert_int_equal(send("third", 2 * MPI_BSEND_OVERHEAD), MPI_SUCCESS);
    assert_int_equal(sends, 3);
    assert_int_equal(around.raised, 1);
}

static void a_message_that_leaves_at_once(void **state)
{
    (void)state;
    at_once = true;
    for (int i = 0; i < 3; i++)
        assert_int_equal(send("text", MESSAGE_BYTES), MPI_SUCCESS);
    assert_false(buffer_room_is_used());
    assert_null(request_first());
}

/* The room is free again, and nothing is on its way. */
static void a_failing_send(void **state)
{
    (void)state;
    code_of_start = MPI_ERR_RANK;
    assert_int_equal(send("text", MESSAGE_BYTES), MPI_ERR_RANK);
    code_of_start = MPI_SUCCESS;
    code_of_pack = MPI_ERR_TYPE;
    assert_int_equal(send("text", MESSAGE_BYTES), MPI_ERR_TYPE);
    assert_int_equal(sends, 0);
    assert_false(buffer_room_is_used());
    assert_null(request_first());
    assert_int_equal(world_comm.handle->references, 0);
}

static void nobody_takes_no_room(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(PMPI_Bsend("text", ROOM, MPI_BYTE, MPI_PROC_NULL, 5, COMM), MPI_SUCCESS);
    assert_int_equal(plain_sends, 3);
    assert_false(buffer_room_is_used());
}

/* It returns when all messages have left; the program gets back what it gave. */
static void detaching_waits(void **state)
{
    (void)state;
    void *address = NULL;
    int size = 0;
    struct request *other =
        world_request(REQUEST_SEND, &world_comm, 1); /* freed, not buffered: not waited for */
    request_abandon(other);
    send("first", MESSAGE_BYTES);
    send("second", MESSAGE_BYTES);
    sent[1]->real = below_real(2);
    looks_until_done = 5;
    assert_int_equal(PMPI_Buffer_detach(&address, &size), MPI_SUCCESS);
    assert_int_equal(looks_until_done, 0);
    assert_ptr_equal(address, attached);
    assert_int_equal(size, ROOM);
    assert_false(buffer_room_is_used());
    assert_ptr_equal(request_first(), other);
    assert_null(other->next);
    assert_int_equal(send("text", MESSAGE_BYTES), MPI_ERR_BUFFER);
}

static void one_buffer_at_a_time(void **state)
{
    (void)state;
    void *address;
    int size;
    assert_int_equal(PMPI_Buffer_attach(attached, 10), MPI_ERR_BUFFER);
    assert_int_equal(PMPI_Buffer_detach(&address, &size), MPI_SUCCESS);
    assert_int_equal(size, ROOM);
    assert_int_equal(PMPI_Buffer_detach(&address, &size), MPI_ERR_BUFFER);
    assert_int_equal(PMPI_Buffer_attach(NULL, 10), MPI_ERR_ARG);
    assert_int_equal(PMPI_Buffer_attach(attached, -1), MPI_ERR_ARG);
    assert_int_equal(around.raised, 4);
}

/* The request of MPI_Ibsend is complete when the call returns. */
static void an_immediate_one_is_done(void **state)
{
    (void)state;
    MPI_Request r = MPI_REQUEST_NULL;
    int flag = 0;
    assert_int_equal(PMPI_Ibsend("text", MESSAGE_BYTES, MPI_BYTE, 1, 5, COMM, &r), MPI_SUCCESS);
    assert_int_equal(PMPI_Test(&r, &flag, MPI_STATUS_IGNORE), MPI_SUCCESS);
    assert_true(flag);
    assert_ptr_equal(r, MPI_REQUEST_NULL);
    assert_false(sent[0]->is_done);
    assert_int_equal(PMPI_Ibsend("text", ROOM, MPI_BYTE, 1, 5, COMM, &r), MPI_ERR_BUFFER);
    assert_ptr_equal(r, MPI_REQUEST_NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_message_is_a_copy), TEST(no_more_than_the_room),    TEST(a_message_that_leaves_at_once),
        TEST(a_failing_send),        TEST(nobody_takes_no_room),     TEST(detaching_waits),
        TEST(one_buffer_at_a_time),  TEST(an_immediate_one_is_done),
    };
    return cmocka_run_group_tests(tests, below_start, NULL);
}
