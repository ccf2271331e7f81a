/* heard_test.c - leases that bind one another: what a node that is cut off may rely on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cmd/heard.h"

#define LEASE 600u
#define NODES 3u

static void a_node_alone_is_given_leases(void **state)
{
    struct heard heard = {{0}};
    (void)state;
    assert_true(heard_take(&heard, 0, 0, 100, LEASE));
    for (uint64_t now = 150; now < 10 * LEASE; now += 50)
        assert_true(heard_take(&heard, 0, now - 50, now, LEASE));
}

static void nobody_is_given_one_when_another_node_is_not_heard(void **state)
{
    struct heard heard = {{0}};
    (void)state;
    assert_true(heard_take(&heard, 0, 0, 100, LEASE));
    assert_true(heard_take(&heard, 1, 0, 120, LEASE));
    assert_true(heard_take(&heard, 0, 100, 700, LEASE));
    assert_true(heard_take(&heard, 0, 700, 720, LEASE));
    assert_false(heard_take(&heard, 0, 720, 721, LEASE));
    assert_true(
        heard_take(&heard, 1, 721, 722, LEASE)); /* it has been given one for all that, and tells so */
    assert_true(heard_take(&heard, 0, 720, 723, LEASE));
}

/* A node that stands still for long has asked for leases, and has not told that it got them. */
static void old_and_future_words_do_not_count(void **state)
{
    struct heard heard = {{0}};
    (void)state;
    assert_true(heard_take(&heard, 0, 0, 100, LEASE));
    assert_true(heard_take(&heard, 0, 90, 300, LEASE));
    assert_false(heard_take(&heard, 0, 800, 701, LEASE));
    assert_false(heard_take(&heard, 0, UINT64_MAX, 710, LEASE));
    assert_false(heard_take(&heard, NODES + PLACEMENT_NODES_MAX, 0, 710, LEASE));
}

struct word {
    uint64_t at, told; /* when it arrives, what it says; at 0: none is under way */
};

/*
 * Requests and answers of all nodes take any time. Node 0 hears nothing any more at some moment; requests
 * that it has sent may come long after that. No lease is given later than one length after the newest that it
 * has got.
 */
static void run(unsigned seed)
{
    struct heard heard = {{0}};
    struct word request[NODES] = {{0}}, grant[NODES] = {{0}};
    uint64_t got[NODES] = {0}, got_at = 0, cut_at;
    srand(seed);
    cut_at = 100 + (uint64_t)rand() % (6 * LEASE);
    for (uint64_t now = 1; now < 20 * LEASE; now++) {
        for (uint32_t node = 0; node < NODES; node++) {
            if (grant[node].at == now && (node > 0 || now < cut_at)) {
                got[node] = grant[node].told;
                got_at = node == 0 ? now : got_at;
            }
            if (request[node].at <= now && now % 50 == node && (node > 0 || now < cut_at))
                request[node] =
                    (struct word){now + 1 + (uint64_t)rand() % (rand() % 20 ? 20 : 2 * LEASE), got[node]};
            if (request[node].at != now || !heard_take(&heard, node, request[node].told, now, LEASE))
                continue;
            if (got_at > 0 && now >= cut_at)
                assert_true(now <= got_at + LEASE);
            grant[node] = (struct word){now + 1 + (uint64_t)rand() % 20, now};
        }
    }
}

static void a_node_that_is_cut_off_knows_the_last_lease_of_all(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 300; seed++)
        run(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_alone_is_given_leases),
        cmocka_unit_test(nobody_is_given_one_when_another_node_is_not_heard),
        cmocka_unit_test(old_and_future_words_do_not_count),
        cmocka_unit_test(a_node_that_is_cut_off_knows_the_last_lease_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
