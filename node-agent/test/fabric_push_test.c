/* fabric_push_test.c - data through slabs: admission, few slabs, damage, many at a time, ends of all kinds.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "node-agent/fabric/state.h"
#include "node-agent/test/fabric_ends.h"

static void join_two(struct end *ends, enum fabric_mode mode, uint32_t slabs, uint32_t slab_bytes)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct fabric_config config = ends_config(i, ENDS_PATIENCE_MS);
        config.mode = mode;
        config.slabs = slabs;
        config.slab_bytes = slab_bytes;
        end_open(&ends[i], &ends_loop, &config);
    }
    ends_join(&ends_loop, &ends[1], &ends[0]);
}

static void push(struct end *end, struct supply *supply)
{
    assert_non_null(fabric_push(end->peer, "tag", 4, supply->bytes, supply_fill, supply));
}

static void check_pushed(struct end *ends, uint64_t bytes)
{
    ends_wait_count(&ends_loop, &ends[1].pushed, 1);
    ends_wait_count(&ends_loop, &ends[0].pulled, 1);
    assert_int_equal(ends[1].push_error, 0);
    assert_int_equal(ends[0].pull_error, 0);
    assert_true(ends[0].is_sound);
    assert_int_equal(ends[0].pulled_bytes, bytes);
}

/* Sizes at which something ends: nothing, one byte, a slab's room, one more, many slabs; in both modes. */
static void data_arrives(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 4032, 4033, 1000000};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct end ends[2];
        struct supply supply = {.bytes = sizes[i]};
        join_two(ends, i % 2 ? FABRIC_MODE_AUTHENTICATE : FABRIC_MODE_ENCRYPT, 4, 4096);
        push(&ends[1], &supply);
        check_pushed(ends, sizes[i]);
        ends_close_two(ends);
    }
}

/* Less comes than was announced, in small pieces. */
static void source_may_end_early(void **state)
{
    (void)state;
    struct end ends[2];
    struct supply supply = {.bytes = 30000, .most = 700};
    join_two(ends, FABRIC_MODE_AUTHENTICATE, 3, 4096);
    assert_non_null(fabric_push(ends[1].peer, "tag", 4, 1ull << 40, supply_fill, &supply));
    check_pushed(ends, 30000);
    ends_close_two(ends);
}

/* Two slabs and a slow taker: the sender waits, nothing is lost, and messages pass by. */
static void few_slabs_hold_back(void **state)
{
    (void)state;
    struct end ends[2];
    struct supply supply = {.bytes = 60 * 4032};
    join_two(ends, FABRIC_MODE_AUTHENTICATE, 2, 4096);
    ends[0].take_ms = 10;
    push(&ends[1], &supply);
    end_send(&ends_loop, &ends[1], 0, 100);
    ends_wait_count(&ends_loop, &ends[0].received, 1);
    assert_int_equal(ends[0].pulled, 0); /* it takes 600 ms at least */
    assert_true(__atomic_load_n(&supply.given, __ATOMIC_RELAXED) < supply.bytes);
    check_pushed(ends, supply.bytes);
    ends_close_two(ends);
}

/* More transfers than slabs, in both directions at a time. */
static void many_share_the_slabs(void **state)
{
    (void)state;
    enum { EACH = 20 };
    struct end ends[2];
    struct supply supplies[2][EACH];
    join_two(ends, FABRIC_MODE_AUTHENTICATE, 4, 8192);
    for (unsigned i = 0; i < 2 * EACH; i++) {
        supplies[i % 2][i / 2] = (struct supply){.bytes = 100000 + i};
        push(&ends[i % 2], &supplies[i % 2][i / 2]);
    }
    for (unsigned i = 0; i < 2; i++) {
        ends_wait_count(&ends_loop, &ends[i].pulled, EACH);
        ends_wait_count(&ends_loop, &ends[i].pushed, EACH);
        assert_true(ends[i].is_sound);
        assert_int_equal(ends[i].pull_error, 0);
        assert_int_equal(ends[i].push_error, 0);
    }
    ends_close_two(ends);
}

/* A chunk that is damaged on its way is not handed up; both sides hear of it, and the next push is sound. */
static void damaged_chunk_is_refused(void **state)
{
    (void)state;
    struct end ends[2];
    struct fabric_counts counts;
    struct supply supply = {.bytes = 20 * 4032}, again = supply;
    join_two(ends, FABRIC_MODE_AUTHENTICATE, 4, 4096);
    setenv("BELAY_FAULT", "fabric.chunk#7=error", 1);
    push(&ends[1], &supply);
    ends_wait_count(&ends_loop, &ends[1].pushed, 1);
    ends_wait_count(&ends_loop, &ends[0].pulled, 1);
    unsetenv("BELAY_FAULT");
    assert_int_equal(ends[1].push_error, EBADMSG);
    assert_int_equal(ends[0].pull_error, EBADMSG);
    assert_int_equal(ends[0].pulled_bytes, 6 * 4032);
    assert_true(ends[0].is_sound);
    fabric_read_counts(ends[0].fabric, &counts);
    assert_int_equal(counts.chunks_refused, 1);
    ends[0].pulled_bytes = 0;
    push(&ends[1], &again);
    ends_wait_count(&ends_loop, &ends[1].pushed, 2);
    assert_int_equal(ends[1].push_error, 0);
    assert_int_equal(ends[0].pulled_bytes, again.bytes);
    assert_true(ends[0].is_sound);
    assert_int_equal(ends[0].lost + ends[1].lost, 0);
    ends_close_two(ends);
}

static void ends_are_told(void **state)
{
    (void)state;
    struct end ends[2];
    struct supply supply = {.bytes = 100000}, failing = {.bytes = 100000, .fails_at = 8000};
    join_two(ends, FABRIC_MODE_AUTHENTICATE, 4, 4096);
    ends[0].refusal = EDQUOT;
    push(&ends[1], &supply);
    ends_wait_count(&ends_loop, &ends[1].pushed, 1);
    ends_wait_count(&ends_loop, &ends[0].pulled, 1);
    assert_int_equal(ends[1].push_error, EDQUOT);
    assert_int_equal(ends[0].pull_error, EDQUOT);
    assert_int_equal(supply.given, 0); /* nothing flows that is not admitted */
    ends[0].refusal = 0;
    push(&ends[1], &failing);
    ends_wait_count(&ends_loop, &ends[1].pushed, 2);
    ends_wait_count(&ends_loop, &ends[0].pulled, 2);
    assert_int_equal(ends[1].push_error, ESTALE);
    assert_int_equal(ends[0].pull_error, ESTALE);
    assert_null(fabric_push(ends[1].peer, "tag", FABRIC_TAG_BYTES + 1, 1, supply_fill, &supply));
    assert_int_equal(errno, EINVAL);
    supply.given = 0;
    ends[0].pulled_bytes = 0;
    push(&ends[1], &supply);
    ends_wait_count(&ends_loop, &ends[1].pushed, 3);
    assert_int_equal(ends[1].push_error, 0);
    assert_int_equal(ends[0].pulled_bytes, supply.bytes);
    ends_close_two(ends);
}

/* Forgotten, ended by an epoch, and destroyed in the middle: functions are out, slabs serve others. */
static void ends_in_the_middle(void **state)
{
    (void)state;
    struct end ends[2];
    struct supply supply = {.bytes = 1u << 30, .fill_ms = 1}, other = {.bytes = 100000};
    join_two(ends, FABRIC_MODE_AUTHENTICATE, 4, 4096);
    push(&ends[1], &supply);
    ends_wait_count(&ends_loop, &ends[0].offered, 1);
    ends_run(&ends_loop, 100);
    fabric_forget(ends[1].peer);
    uint64_t given = supply.given;
    ends_run(&ends_loop, 100);
    assert_int_equal(supply.given, given);
    assert_int_equal(ends[1].pushed, 0);
    end_connect(&ends[1], &ends[0]); /* to the other side the former session is lost by that */
    ends_wait_number(&ends_loop, &ends[1].joined, 2);
    ends_wait_number(&ends_loop, &ends[0].joined, 2);
    ends_wait_number(&ends_loop, &ends[0].lost, 1);
    assert_string_equal(ends[0].reason, "it has begun anew");
    assert_int_equal(ends[0].pull_error, ECONNRESET);
    ends[0].pulled_bytes = 0;
    push(&ends[1], &other);
    ends_wait_count(&ends_loop, &ends[1].pushed, 1);
    assert_int_equal(ends[1].push_error, 0);
    assert_int_equal(ends[0].pulled_bytes, other.bytes);
    supply.given = 0;
    push(&ends[1], &supply);
    ends_wait_count(&ends_loop, &ends[0].offered, 3);
    ends_run(&ends_loop, 50);
    fabric_enter_epoch(ends[1].fabric, &(struct fabric_epoch){.number = 2});
    ends_wait_count(&ends_loop, &ends[1].pushed, 2);
    ends_wait_number(&ends_loop, &ends[1].lost, 1);
    assert_int_equal(ends[1].push_error, ECONNRESET);
    ends_close_two(ends);
    supply.given = 0;
    join_two(ends, FABRIC_MODE_AUTHENTICATE, 4, 4096);
    push(&ends[1], &supply);
    ends_wait_count(&ends_loop, &ends[0].offered, 1);
    ends_run(&ends_loop, 50);
    end_close(&ends[1], &ends_loop);
    end_close(&ends[0], &ends_loop);
}

static bool are_slabs_free(void *context)
{
    struct fabric *fabric = context;
    bool are_free = true;
    pthread_mutex_lock(&fabric->lock);
    for (uint32_t i = 0; i < fabric->sources.count; i++)
        are_free &= fabric->sources.slabs[i].state == SLAB_FREE;
    pthread_mutex_unlock(&fabric->lock);
    return are_free;
}

/* All source slabs can be used again, whatever the provider does with what it was given for a silent peer. */
static void wait_for_slabs(struct end *end)
{
    ends_wait(&ends_loop, are_slabs_free, end->fabric);
}

/* The receiver is killed while data flow, or stands still: told within the stall time; then others are
 * served. */
static void receiver_goes(void **state)
{
    (void)state;
    static const int signals[] = {SIGKILL, SIGSTOP};
    for (unsigned i = 0; i < 2; i++) {
        struct end end, third;
        struct fabric_address address;
        int pipes[2];
        assert_int_equal(pipe(pipes), 0);
        pid_t pid = fork();
        if (pid == 0) {
            uv_loop_t own;
            struct fabric_config config = ends_config(1, ENDS_PATIENCE_MS);
            uv_loop_init(&own);
            end_open(&end, &own, &config);
            ssize_t put = write(pipes[1], &end.address, sizeof end.address);
            (void)put;
            for (;;)
                uv_run(&own, UV_RUN_ONCE);
        }
        assert_int_equal(read(pipes[0], &address, sizeof address), sizeof address);
        close(pipes[0]);
        close(pipes[1]);
        struct fabric_config config = ends_config(0, 3 * ENDS_STALL_MS);
        struct fabric_identity identity = ends_config(1, 0).self;
        struct supply supply = {.bytes = 1ull << 40}, other = {.bytes = 1000000};
        end_open(&end, &ends_loop, &config);
        assert_non_null(fabric_connect(end.fabric, &identity, &address, NULL));
        ends_wait_number(&ends_loop, &end.joined, 1);
        push(&end, &supply);
        ends_wait_count(&ends_loop, &supply.given, 1);
        kill(pid, signals[i]);
        ends_wait_number(&ends_loop, &end.lost, 1);
        assert_int_equal(end.pushed, 1);
        assert_int_equal(end.push_error, ECONNRESET);
        wait_for_slabs(&end);
        config = ends_config(2, ENDS_PATIENCE_MS);
        end_open(&third, &ends_loop, &config);
        end_connect(&end, &third);
        ends_wait_number(&ends_loop, &end.joined, 2);
        push(&end, &other);
        ends_wait_count(&ends_loop, &end.pushed, 2);
        assert_int_equal(end.push_error, 0);
        assert_int_equal(third.pulled_bytes, other.bytes);
        end_close(&third, &ends_loop);
        end_close(&end, &ends_loop);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, ends_begin, ends_end)
    const struct CMUnitTest tests[] = {
        TEST(data_arrives),
        TEST(source_may_end_early),
        TEST(few_slabs_hold_back),
        TEST(many_share_the_slabs),
        TEST(damaged_chunk_is_refused),
        TEST(ends_are_told),
        TEST(ends_in_the_middle),
        TEST(receiver_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
