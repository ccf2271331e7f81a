/* test_ack.c - acknowledgements of synchronous sends: none is lost or sent twice when the library fails, and
 * none completes another send than the one that it is of. */
#include "mpi-layer/upper/ack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/test/below.h"
#include "mpi-layer/upper/test/world.h"

#define MANY 150 /* more than go in two messages */

/* The wire of the library below: what was sent, and what comes. */
static struct ack sent[2 * MANY], coming[MANY + 1];
static int sent_to[2 * MANY], sent_count, messages, coming_count, largest;
static int sends_left; /* until the library fails */

MPI_Comm comm_acks(void)
{
    return (MPI_Comm)(void *)world_comm.handle;
}

int PMPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    int acks = count / 2;
    (void)type;
    (void)tag;
    assert_ptr_equal(comm, comm_acks());
    if (sends_left-- <= 0)
        return MPI_ERR_OTHER;
    largest = acks > largest ? acks : largest;
    memcpy(&sent[sent_count], buffer, (size_t)acks * sizeof sent[0]);
    for (int i = 0; i < acks; i++)
        sent_to[sent_count++] = to;
    messages++;
    return MPI_SUCCESS;
}

int PMPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    (void)source;
    (void)tag;
    (void)comm;
    (void)status;
    *flag = coming_count > 0;
    return MPI_SUCCESS;
}

int PMPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Status *status)
{
    int acks = coming_count < count / 2 ? coming_count : count / 2;
    (void)type;
    (void)source;
    (void)tag;
    (void)comm;
    memcpy(buffer, &coming[coming_count - acks], (size_t)acks * sizeof coming[0]);
    coming_count -= acks;
    status->MPI_TAG = 2 * acks; /* for PMPI_Get_count() */
    return MPI_SUCCESS;
}

int PMPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *count)
{
    (void)type;
    *count = status->MPI_TAG;
    return MPI_SUCCESS;
}

static int start(void **state)
{
    sends_left = 1000;
    ack_send_later(); /* what a test before has left */
    sent_count = messages = largest = coming_count = 0;
    below_blocks = 0;
    return world_start(state);
}

static void owe(int world_rank, uint64_t first, uint32_t count)
{
    struct owed *owed = arena_alloc(sizeof *owed + count * sizeof owed->acks[0]);
    owed->world_rank = world_rank;
    owed->count = count;
    for (uint32_t i = 0; i < count; i++)
        owed->acks[i] = (struct ack){first + i, first + i};
    ack_later(owed);
}

/* Each number of a range was sent once, to this rank. */
static void check_sent(int world_rank, uint64_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int times = 0;
        for (int at = 0; at < sent_count; at++)
            times +=
                sent[at].request == first + i && sent[at].serial == first + i && sent_to[at] == world_rank;
        assert_int_equal(times, 1);
    }
}

static void many_go_in_small_messages(void **state)
{
    (void)state;
    owe(2, 1000, MANY);
    ack_send_later();
    assert_int_equal(sent_count, MANY);
    assert_int_equal(messages, 3);
    assert_true(largest <= 64);
    check_sent(2, 1000, MANY);
    assert_int_equal(below_blocks, 0);
    ack_send_later();
    assert_int_equal(sent_count, MANY);
}

static void what_fails_is_sent_later_and_once(void **state)
{
    (void)state;
    owe(1, 1000, 100);
    owe(2, 5000, 3);
    sends_left = 2; /* all for rank 2, and a part for rank 1 */
    ack_send_later();
    assert_true(sent_count < 103);
    ack_send_later(); /* fails at once */
    sends_left = 1000;
    ack_send_later();
    assert_int_equal(sent_count, 103);
    check_sent(1, 1000, 100);
    check_sent(2, 5000, 3);
    assert_int_equal(below_blocks, 0);
}

static void one_that_fails_is_remembered(void **state)
{
    (void)state;
    sends_left = 0;
    ack_send(2, 7, 7);
    assert_int_equal(sent_count, 0);
    assert_int_equal(below_blocks, 1);
    sends_left = 1000;
    ack_poll(); /* sends what is owed before it looks */
    assert_int_equal(sent_count, 1);
    check_sent(2, 7, 1);
    assert_int_equal(below_blocks, 0);
}

static struct request *held(uint64_t serial)
{
    struct request *r = world_request(REQUEST_SEND, &world_comm, 0);
    r->sync_serial = serial;
    r->is_held = true;
    return r;
}

static void come(const struct request *r, uint64_t serial)
{
    coming[coming_count++] = (struct ack){(uint64_t)(uintptr_t)r, serial};
}

static void only_the_send_that_it_is_of_is_complete(void **state)
{
    struct request *right = held(5), *again = held(6), *not_held = held(7), *in_library = held(8);
    (void)state;
    not_held->is_held = false;
    in_library->real = below_real(3);
    come(right, 5);
    come(again, 4); /* of the send that had this memory before */
    come(not_held, 7);
    come(in_library, 8);
    ack_poll();
    assert_true(right->is_done);
    assert_false(again->is_done);
    assert_true(again->is_held);
    assert_false(not_held->is_done);
    assert_false(in_library->is_done); /* the library says when */
    assert_false(in_library->is_held);
}

static void all_that_have_come_are_heard(void **state)
{
    struct request *r[MANY];
    (void)state;
    for (int i = 0; i < MANY; i++)
        come(r[i] = held((uint64_t)i + 1), (uint64_t)i + 1);
    come(r[0], 1); /* twice */
    ack_poll();
    for (int i = 0; i < MANY; i++)
        assert_true(r[i]->is_done);
    assert_int_equal(world_comm.pending, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(many_go_in_small_messages, start),
        cmocka_unit_test_setup(what_fails_is_sent_later_and_once, start),
        cmocka_unit_test_setup(one_that_fails_is_remembered, start),
        cmocka_unit_test_setup(only_the_send_that_it_is_of_is_complete, start),
        cmocka_unit_test_setup(all_that_have_come_are_heard, start),
    };
    return cmocka_run_group_tests(tests, below_start, NULL);
}
