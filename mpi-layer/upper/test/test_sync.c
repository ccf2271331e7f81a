/*
 * test_sync.c - pending synchronous sends: how many messages have followed each of them. The receiver finds
 * out by that number whether a drain has taken the message (docs/line.md), so the numbers have to be right.
 */
#include "mpi-layer/upper/sync.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "mpi-layer/upper/test/below.h"
#include "mpi-layer/upper/test/world.h"

#define STEPS 20000
#define PENDING_MAX 100
#define TAGS 2
#define PEERS 2

/* Beside the code, the plain truth: each pending one with the messages that followed. */
static struct {
    struct request *request;
    uint64_t later;
} pending[PENDING_MAX];
static int count;

static void send(struct comm *comm, int peer, int tag, bool is_sync)
{
    for (int i = 0; i < count; i++) {
        const struct request *r = pending[i].request;
        pending[i].later += r->comm == comm && r->peer == peer && r->tag == tag;
    }
    sync_count(comm, peer, tag); /* as p2p.c: every message first, then what is special about it */
    if (!is_sync)
        return;
    struct request *r = world_request(REQUEST_SEND, comm, 1);
    request_describe(r, NULL, 0, peer, tag);
    r->is_special = true;
    assert_true(sync_reserve());
    sync_begin(r);
    pending[count].request = r;
    pending[count++].later = 0;
}

static void end(int i)
{
    struct request *r = pending[i].request;
    sync_end(r);
    assert_null(r->sync_key);
    sync_end(r); /* nothing more */
    request_delete(r);
    pending[i] = pending[--count];
}

static uint32_t pending_to(const struct comm *comm, int peer)
{
    uint32_t found = 0;
    for (int i = 0; i < count; i++)
        found += pending[i].request->comm == comm && pending[i].request->peer == peer;
    return found;
}

static void each_counts_what_follows(void **state)
{
    struct comm *comms[] = {&world_comm, &world_reverse};
    uint64_t serial = 0;
    (void)state;
    srand(1);
    for (int step = 0; step < STEPS; step++) {
        if (count == PENDING_MAX || (count && rand() % 3 == 0)) {
            end(rand() % count);
            continue;
        }
        int before = count;
        send(comms[rand() % 2], rand() % PEERS, rand() % TAGS, rand() % 2);
        if (count > before) { /* serials tell requests apart whose memory is used again */
            assert_true(pending[before].request->sync_serial > serial);
            serial = pending[before].request->sync_serial;
        }
        for (int i = 0; i < count; i++)
            assert_int_equal(sync_later(pending[i].request), pending[i].later);
        for (int peer = 0; peer < PEERS; peer++)
            assert_int_equal(world_comm.peers[peer].pending_sync, pending_to(&world_comm, peer));
    }
    while (count)
        end(0);
    assert_int_equal(world_comm.peers[0].pending_sync + world_reverse.peers[1].pending_sync, 0);
}

/* What has to be remembered goes with the last pending one. */
static void no_memory_is_kept(void **state)
{
    (void)state;
    assert_true(sync_reserve());
    struct request *warm = world_request(REQUEST_SEND, &world_comm, 1);
    request_delete(warm); /* the request's own memory is used again */
    int blocks = below_blocks;
    for (int i = 0; i < 3; i++) {
        send(&world_comm, 1, 5, true);
        end(0);
        assert_true(sync_reserve());
        assert_int_equal(below_blocks, blocks);
    }
}

/* A send is not begun without the memory to count it. */
static void memory_is_reserved_before(void **state)
{
    (void)state;
    assert_true(sync_reserve());
    below_is_memory_short = true;
    assert_true(sync_reserve()); /* it is there */
    struct request *r = world_request(REQUEST_SEND, &world_comm, 1);
    request_describe(r, NULL, 0, 1, 5);
    sync_begin(r);
    assert_false(sync_reserve());
    below_is_memory_short = false;
    assert_int_equal(sync_later(r), 0);
    sync_end(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_counts_what_follows, world_start),
        cmocka_unit_test_setup(no_memory_is_kept, world_start),
        cmocka_unit_test_setup(memory_is_reserved_before, world_start),
    };
    return cmocka_run_group_tests(tests, below_start, NULL);
}
