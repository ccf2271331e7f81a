/* fabric_disturb_test.c - frames and chunks that are lost, come late, out of order, or twice: by fault
 * points. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "node-agent/test/fabric_ends.h"

#define MESSAGES 100u
#define STALL_MS 3000u /* a lost frame is missed after two beats, which are a fifth of this */

static void talk(struct end ends[2])
{
    struct supply supply = {.bytes = ENDS_PUSH_BYTES};
    for (unsigned i = 0; i < MESSAGES; i++) {
        end_send(&ends_loop, &ends[1], i, i % 50 == 49 ? 30000 : 500);
        end_send(&ends_loop, &ends[0], i, 500);
    }
    assert_non_null(fabric_push(ends[1].peer, "tag", 4, supply.bytes, supply_fill, &supply));
    ends_wait_count(&ends_loop, &ends[0].received, MESSAGES);
    ends_wait_count(&ends_loop, &ends[1].received, MESSAGES);
    ends_wait_count(&ends_loop, &ends[1].pushed, 1);
    assert_true(ends[0].is_in_order && ends[1].is_in_order);
    assert_int_equal(ends[0].received, MESSAGES);
    assert_int_equal(ends[1].received, MESSAGES);
    assert_int_equal(ends[1].push_error, 0);
    assert_true(ends[0].is_sound && ends[0].pulled_bytes == ENDS_PUSH_BYTES);
}

/* Also in the handshake: all arrives once, in order, and nobody is lost. */
static void what_is_disturbed_arrives(void **state)
{
    (void)state;
    static const char *const faults[] = {
        "fabric.loss%5=error",
        "fabric.loss#1=error,fabric.loss#4=error", /* hellos */
        "fabric.late%10=error",
        "fabric.twice%50=error",
        "fabric.loss%3=error,fabric.late%5:1=error,fabric.twice%20:2=error,fabric.frame%2:3=error",
    };
    for (unsigned i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct end ends[2];
        struct fabric_counts counts[2];
        setenv("BELAY_FAULT", faults[i], 1);
        ends_open_two(ends, STALL_MS);
        ends_join(&ends_loop, &ends[1], &ends[0]);
        talk(ends);
        for (unsigned j = 0; j < 2; j++)
            fabric_read_counts(ends[j].fabric, &counts[j]);
        printf("# %s: %llu of %llu frames repeated\n", faults[i],
               (unsigned long long)(counts[0].frames_repeated + counts[1].frames_repeated),
               (unsigned long long)(counts[0].frames_sent + counts[1].frames_sent));
        assert_int_equal(ends[0].lost + ends[1].lost, 0);
        if (i == 0)
            assert_true(counts[0].frames_repeated + counts[1].frames_repeated > 0);
        ends_close_two(ends);
    }
    unsetenv("BELAY_FAULT");
}

/* Who is not heard any more is lost; who hears nothing of that misses the other one a stall later. */
static void one_direction_is_cut(void **state)
{
    (void)state;
    struct end ends[2];
    setenv("BELAY_FAULT", "fabric.loss@0#20+=error", 1);
    ends_open_two(ends, ENDS_STALL_MS);
    ends_join(&ends_loop, &ends[1], &ends[0]);
    for (unsigned i = 0; i < 100; i++)
        end_send(&ends_loop, &ends[1], i, 500);
    ends_wait_number(&ends_loop, &ends[0].lost, 1);
    ends_wait_number(&ends_loop, &ends[1].lost, 1);
    assert_in_range(ends[0].received, 1, 99);
    assert_true(ends[0].is_in_order);
    ends_close_two(ends);
    unsetenv("BELAY_FAULT");
}

/* Others are heard. */
static void one_peer_is_cut_off(void **state)
{
    (void)state;
    struct end ends[3];
    setenv("BELAY_FAULT", "fabric.loss@2#20+=error", 1);
    for (uint32_t i = 0; i < 3; i++) {
        struct fabric_config config = ends_config(i, ENDS_STALL_MS);
        end_open(&ends[i], &ends_loop, &config);
    }
    ends_join(&ends_loop, &ends[2], &ends[0]);
    end_connect(&ends[1], &ends[0]);
    ends_wait_number(&ends_loop, &ends[0].joined, 2);
    ends_wait_number(&ends_loop, &ends[2].lost, 1);
    ends_wait_number(&ends_loop, &ends[0].lost, 1);
    for (unsigned i = 0; i < 100; i++)
        end_send(&ends_loop, &ends[1], i, 500);
    ends_wait_count(&ends_loop, &ends[0].received, 100);
    assert_int_equal(ends[1].lost, 0);
    for (unsigned i = 0; i < 3; i++)
        end_close(&ends[i], &ends_loop);
    unsetenv("BELAY_FAULT");
}

/* A write that was announced, and never came: what is in the slab is not taken for it. */
static void chunks_are_lost(void **state)
{
    (void)state;
    struct end ends[2];
    struct fabric_counts counts;
    setenv("BELAY_FAULT", "fabric.chunk.loss@0#3=error", 1);
    ends_open_two(ends, ENDS_PATIENCE_MS);
    ends_join(&ends_loop, &ends[1], &ends[0]);
    for (unsigned i = 0; i < 2; i++) {
        struct supply supply = {.bytes = ENDS_PUSH_BYTES};
        assert_non_null(fabric_push(ends[1].peer, "tag", 4, supply.bytes, supply_fill, &supply));
        ends_wait_count(&ends_loop, &ends[1].pushed, i + 1);
        ends_wait_count(&ends_loop, &ends[0].pulled, i + 1);
        assert_int_equal(ends[1].push_error, i == 0 ? EBADMSG : 0);
        assert_int_equal(ends[0].pull_error, i == 0 ? EBADMSG : 0);
    }
    fabric_read_counts(ends[0].fabric, &counts);
    assert_int_equal(counts.chunks_refused, 1);
    assert_true(ends[0].is_sound);
    assert_int_equal(ends[0].lost + ends[1].lost, 0);
    ends_close_two(ends);
    unsetenv("BELAY_FAULT");
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* However fast the machine is, all bytes take as long as the rate says, and arrive. */
static void a_rate_is_kept(void **state)
{
    (void)state;
    struct end ends[2];
    struct supply supply = {.bytes = ENDS_PUSH_BYTES};
    char fault[64];
    snprintf(fault, sizeof fault, "fabric.rate@0=rate:%u",
             (unsigned)(ENDS_PUSH_BYTES * 5 / 1000)); /* 0.2 s */
    setenv("BELAY_FAULT", fault, 1);
    ends_open_two(ends, ENDS_PATIENCE_MS);
    ends_join(&ends_loop, &ends[1], &ends[0]);
    double begin_s = now_s();
    assert_non_null(fabric_push(ends[1].peer, "tag", 4, supply.bytes, supply_fill, &supply));
    ends_wait_count(&ends_loop, &ends[1].pushed, 1);
    ends_wait_count(&ends_loop, &ends[0].pulled, 1);
    assert_true(now_s() - begin_s >= 0.19);
    assert_int_equal(ends[1].push_error, 0);
    assert_true(ends[0].is_sound && ends[0].pulled_bytes == ENDS_PUSH_BYTES);
    ends_close_two(ends);
    unsetenv("BELAY_FAULT");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, ends_begin, ends_end)
    const struct CMUnitTest tests[] = {
        TEST(what_is_disturbed_arrives), TEST(one_direction_is_cut), TEST(one_peer_is_cut_off),
        TEST(chunks_are_lost),           TEST(a_rate_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
