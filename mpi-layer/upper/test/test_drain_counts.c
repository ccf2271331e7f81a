/* test_drain_counts.c - what ranks tell one another at the beginning of a drain, and that they agree on it.
 */
#include "mpi-layer/upper/drain_counts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/upper/ack.h"
#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/line.h"
#include "mpi-layer/upper/request_done.h"
#include "mpi-layer/upper/sync.h"
#include "mpi-layer/upper/test/below.h"
#include "mpi-layer/upper/test/world.h"

#define LINE 7
#define ENTRIES 8

/* As it is sent. */
struct sent {
    uint64_t line;
    struct told told[ENTRIES];
};

static struct {
    struct sent sent[WORLD_RANKS]; /* by this rank, to each */
    int entries[WORLD_RANKS];
    struct sent coming; /* from rank 1 */
    int coming_bytes;   /* 0: nothing */
    bool is_taken;      /* the others have received what was sent */
    bool is_agreement_over, others_agree;
    int agreements, *mine, *all;
} library;

static int failures, owed_count;
static struct ack owed_first;

void *comm_private_world(void)
{
    return below_real(30);
}

bool line_fault(const char *point, uint64_t line)
{
    assert_string_equal(point, "rank.drain.counts");
    assert_int_equal(line, LINE);
    return false;
}

bool line_fail(const char *reason, uint64_t bytes)
{
    (void)reason, (void)bytes;
    failures++;
    return false;
}

void ack_later(struct owed *owed)
{
    assert_int_equal(owed->world_rank, 1);
    owed_count += (int)owed->count;
    if (owed->count)
        owed_first = owed->acks[0];
    arena_free(owed);
}

static int issend(const void *data, int count, void *type, int to, int tag, void *comm, void **request)
{
    (void)tag;
    assert_ptr_equal(type, api_real(MPI_BYTE));
    assert_ptr_equal(comm, below_real(30));
    memcpy(&library.sent[to], data, (size_t)count);
    library.entries[to] = (int)(((size_t)count - sizeof(uint64_t)) / sizeof(struct told));
    *request = below_real(31);
    return MPI_SUCCESS;
}

static int iprobe(int source, int tag, void *comm, int *flag, MPI_Status *status)
{
    (void)source, (void)tag, (void)comm;
    *flag = library.coming_bytes > 0;
    status->MPI_SOURCE = 1;
    return MPI_SUCCESS;
}

static int get_count(const MPI_Status *status, void *type, int *count)
{
    (void)status, (void)type;
    *count = library.coming_bytes;
    return MPI_SUCCESS;
}

static int receive(void *to, int count, void *type, int source, int tag, void *comm, MPI_Status *status)
{
    (void)type, (void)tag, (void)comm, (void)status;
    assert_int_equal(source, 1);
    memcpy(to, &library.coming, (size_t)count);
    library.coming_bytes = 0;
    return MPI_SUCCESS;
}

static int iallreduce(const void *mine, void *all, int count, void *type, void *op, void *comm,
                      void **request)
{
    (void)type, (void)op, (void)comm;
    assert_int_equal(count, 1);
    library.agreements++;
    *(int *)all = *(const int *)mine && library.others_agree;
    *request = below_real(32);
    return MPI_SUCCESS;
}

static int test_request(void **request, int *flag, MPI_Status *status)
{
    (void)status;
    *flag = *request == below_real(32) ? library.is_agreement_over : library.is_taken;
    if (*flag)
        *request = NULL;
    return MPI_SUCCESS;
}

static int start(void **state)
{
    memset(&library, 0, sizeof library);
    library.others_agree = true;
    failures = owed_count = 0;
    *(void **)(void *)MPI_BYTE = below_real(1);
    BELOW_SET(MPI_Issend, issend);
    BELOW_SET(MPI_Iprobe, iprobe);
    BELOW_SET(MPI_Get_count, get_count);
    BELOW_SET(MPI_Recv, receive);
    BELOW_SET(MPI_Iallreduce, iallreduce);
    BELOW_SET(MPI_Test, test_request);
    return world_start(state);
}

/* Nothing of an exchange is left. */
static int end(void **state)
{
    (void)state;
    while (request_first())
        request_delete(request_first());
    counts_forget();
    return 0;
}

static struct request *synchronous(int to)
{
    struct request *r = world_request(REQUEST_SEND, &world_comm, 5);
    request_describe(r, NULL, 0, to, 9);
    r->is_sync = r->is_special = true;
    assert_true(sync_reserve());
    sync_begin(r);
    return r;
}

/* Look until the exchange is over. True: it has been agreed on. */
static bool finish(bool is_leaving)
{
    bool is_agreed = false;
    library.is_agreement_over = true;
    for (int looks = 0; !counts_look(is_leaving, &is_agreed); looks++)
        assert_true(looks < 10);
    return is_agreed;
}

static void test_what_is_told(void **state)
{
    (void)state;
    world_comm.peers[1].sent = 5;
    world_reverse.peers[0].sent = 3; /* rank 2 of the world */
    world_comm.peers[2].sent = 4;    /* ... which knows of them already */
    world_comm.peers[2].told = 4;
    struct request *r = synchronous(1);
    sync_count(&world_comm, 1, 9); /* one more with the same tag comes behind it */
    assert_int_equal(counts_begin(LINE, true), 0);
    assert_int_equal(library.entries[0], 0);
    assert_int_equal(library.entries[1], 2);
    assert_int_equal(library.entries[2], 1);
    assert_int_equal(library.sent[1].line, LINE);
    const struct told *told = library.sent[1].told;
    assert_int_equal(told[0].comm, world_comm.id);
    assert_int_equal(told[0].count, 5);
    assert_int_equal(told[0].source, 0);
    assert_int_equal(told[0].request, 0);
    assert_int_equal(told[1].request, (uintptr_t)r);
    assert_int_equal(told[1].serial, r->sync_serial);
    assert_int_equal(told[1].count, 1);
    assert_int_equal(told[1].tag, 9);
    assert_int_equal(library.sent[2].told[0].comm, world_reverse.id);
    assert_int_equal(library.sent[2].told[0].source, 2);
    assert_true(r->is_held && r->is_told);
    assert_int_equal(world_comm.peers[1].told, 5);
    library.is_taken = true;
    assert_true(finish(false));
    counts_end(true);
    assert_null(r->sync_key); /* the receiver knows */
    assert_int_equal(failures, 0);
}

/* A rank waits until the others have taken what it tells, and for their agreement. */
static void test_agreement(void **state)
{
    (void)state;
    bool is_agreed = true;
    world_comm.peers[1].sent = 5;
    assert_int_equal(counts_begin(LINE, true), 0);
    assert_false(counts_look(false, &is_agreed));
    assert_int_equal(library.agreements, 0);
    library.is_taken = true;
    assert_false(counts_look(false, &is_agreed));
    assert_int_equal(library.agreements, 1);
    assert_false(counts_look(false, &is_agreed));
    assert_true(finish(false));
    assert_int_equal(library.agreements, 1);
    counts_end(true);
    library.entries[1] = 0;
    assert_int_equal(counts_begin(LINE, true), 0);
    assert_int_equal(library.entries[1], 0); /* it has been told of all */
    assert_true(finish(false));
}

/* If another rank could not be told everything, nothing has been told. */
static void test_disagreement(void **state)
{
    (void)state;
    world_comm.peers[1].sent = 5;
    struct request *r = synchronous(1), *done = synchronous(1);
    library.is_taken = true;
    library.others_agree = false;
    assert_int_equal(counts_begin(LINE, true), 0);
    done->real = NULL; /* the library says that it is complete */
    assert_false(finish(false));
    assert_int_equal(world_comm.peers[1].told, 0);
    assert_false(r->is_told || r->is_held || r->is_done);
    assert_true(done->is_done);
    counts_end(false);
    library.others_agree = true;
    assert_int_equal(counts_begin(LINE, true), 0);
    assert_int_equal(library.entries[1], 2); /* again, but for the send that is done */
    assert_true(finish(false));
}

/* The order to stop is withdrawn while ranks drain: a send that was told of still waits for its receiver. */
static void test_order_withdrawn(void **state)
{
    (void)state;
    MPI_Status status = {0};
    struct request *r = synchronous(1);
    library.is_taken = true;
    half_control()->command = CONTROL_STOP;
    assert_int_equal(counts_begin(LINE, true), 0);
    assert_true(finish(false));
    half_control()->command = CONTROL_RUN;
    request_complete(r, &status, MPI_SUCCESS);
    assert_true(r->is_held);
    assert_false(r->is_done);
    counts_end(true);
    request_acknowledge(r);
    assert_true(r->is_done);
}

/*
 * The library may have completed a send because a drain has taken its message. If that drain was left, and
 * the next one comes to nothing, the send still waits for its receiver.
 */
static void test_disagreement_after_a_drain(void **state)
{
    (void)state;
    struct request *r = synchronous(1);
    library.is_taken = true;
    assert_int_equal(counts_begin(LINE, true), 0);
    assert_true(finish(false));
    r->real = NULL;    /* its message is taken: the library says that it is complete */
    counts_end(false); /* a rank has failed later */
    library.others_agree = false;
    assert_int_equal(counts_begin(LINE, true), 0);
    assert_false(finish(false));
    assert_true(r->is_held);
    assert_false(r->is_told || r->is_done);
    counts_end(false);
    library.others_agree = true;
    library.entries[1] = 0;
    assert_int_equal(counts_begin(LINE, true), 0);
    assert_int_equal(library.entries[1], 1); /* the receiver is told again */
    assert_true(finish(false));
    counts_end(true);
}

/* Who leaves does not wait for the others, and agrees to nothing. */
static void test_leaving(void **state)
{
    (void)state;
    world_comm.peers[1].sent = 5;
    assert_int_equal(counts_begin(LINE, true), 0);
    assert_false(finish(true));
    assert_int_equal(library.agreements, 1);
    counts_end(false); /* what is on its way stays, until the others have taken it ... */
    library.is_agreement_over = false;
    world_comm.peers[1].sent = 0; /* nothing more is to be told */
    assert_int_equal(counts_begin(LINE, true), 0);
    bool is_agreed;
    assert_false(counts_look(false, &is_agreed));
    assert_int_equal(library.agreements, 1);
    library.is_taken = true; /* ... and only then the next exchange can be agreed on */
    assert_true(finish(false));
    assert_int_equal(library.agreements, 2);
}

static void test_without_memory(void **state)
{
    (void)state;
    world_comm.peers[1].sent = 5;
    below_is_memory_short = true;
    assert_int_equal(counts_begin(LINE, true), -1);
    below_is_memory_short = false;
    assert_int_equal(library.entries[1], 0);
    assert_int_equal(world_comm.peers[1].told, 0);
    assert_false(finish(true));
}

static bool is_asked_for(const struct told *told)
{
    return told->request == 78;
}

static void come(uint64_t line)
{
    library.coming = (struct sent){.line = line,
                                   .told = {{.comm = 100, .count = 6, .source = 1},
                                            {.comm = 200, .count = 2, .source = 1},
                                            {.comm = 999, .count = 2, .source = 1},
                                            {.comm = 100, .count = 2, .source = WORLD_RANKS},
                                            {.comm = 100, .request = 77, .serial = 1, .source = 1},
                                            {.comm = 100, .request = 78, .serial = 2, .source = 1}}};
    library.coming_bytes = (int)(sizeof(uint64_t) + 6 * sizeof(struct told));
}

static void test_what_comes(void **state)
{
    (void)state;
    bool is_agreed;
    int blocks = below_blocks;
    library.is_taken = true;
    world_reverse.peers[1].expected = 3; /* a later word than the one that comes */
    assert_int_equal(counts_begin(LINE, true), 0);
    come(LINE);
    counts_look(false, &is_agreed);
    assert_int_equal(world_comm.peers[1].expected, 6);
    assert_int_equal(world_reverse.peers[1].expected, 3);
    assert_true(finish(false));
    counts_settle(is_asked_for);
    assert_int_equal(owed_count, 1);
    assert_int_equal(owed_first.request, 78);
    assert_int_equal(owed_first.serial, 2);
    counts_end(true);
    assert_int_equal(below_blocks, blocks);
}

/* Of a line that was left: the counts are true, and its synchronous sends are told again. */
static void test_what_comes_late(void **state)
{
    (void)state;
    bool is_agreed;
    assert_int_equal(counts_begin(LINE, true), 0);
    come(LINE - 1);
    counts_look(false, &is_agreed);
    assert_int_equal(world_comm.peers[1].expected, 6);
    assert_true(finish(false));
    counts_settle(is_asked_for);
    assert_int_equal(owed_count, 0);
    counts_end(true);
}

static void test_no_memory_to_listen(void **state)
{
    (void)state;
    bool is_agreed;
    assert_int_equal(counts_begin(LINE, true), 0);
    come(LINE);
    below_is_memory_short = true;
    counts_look(true, &is_agreed);
    below_is_memory_short = false;
    assert_int_equal(failures, 1);
    assert_int_equal(world_comm.peers[1].expected, 0);
    counts_look(true, &is_agreed); /* the message is still there */
    assert_int_equal(world_comm.peers[1].expected, 6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_told),    TEST(test_agreement),
        TEST(test_disagreement),    TEST(test_disagreement_after_a_drain),
        TEST(test_order_withdrawn), TEST(test_leaving),
        TEST(test_without_memory),  TEST(test_what_comes),
        TEST(test_what_comes_late), TEST(test_no_memory_to_listen),
    };
    return cmocka_run_group_tests(tests, below_start, NULL);
}
