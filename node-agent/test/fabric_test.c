/* fabric_test.c - fabrics in one process and in two: sessions, messages, losses. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "node-agent/test/fabric_ends.h"

#define MESSAGES 3000u

/* Sizes on both sides of a frame's and of the largest message's; more than all windows together. */
static void messages_arrive_in_order(void **state)
{
    (void)state;
    static const size_t sizes[] = {8, 100, 8000, 8128, 8129, 20000, 8, 8, 65536};
    struct end ends[2];
    uint64_t bytes = 0;
    ends_open_two(ends, ENDS_PATIENCE_MS);
    ends_join(&ends_loop, &ends[1], &ends[0]);
    for (unsigned i = 0; i < MESSAGES; i++) {
        size_t size = i % 500 == 499 ? FABRIC_MESSAGE_BYTES : sizes[i % (sizeof sizes / sizeof sizes[0])];
        end_send(&ends_loop, &ends[1], i, size);
        bytes += size;
    }
    ends_wait_count(&ends_loop, &ends[0].received, MESSAGES);
    assert_true(ends[0].is_in_order);
    assert_int_equal(ends[0].received_bytes, bytes);
    uint8_t byte = 0, *much = calloc(1, FABRIC_MESSAGE_BYTES + 1);
    assert_int_equal(fabric_send(ends[1].peer, much, FABRIC_MESSAGE_BYTES + 1), -1);
    assert_int_equal(errno, EMSGSIZE);
    assert_int_equal(fabric_send(ends[0].peer, &byte, 0), 0); /* an empty one is one, too */
    ends_wait_count(&ends_loop, &ends[1].received, 1);
    free(much);
    ends_close_two(ends);
}

/* A loop that does not run: its peer's memory stays bounded, and nothing is lost. */
static void loop_that_stands_holds_sender_back(void **state)
{
    (void)state;
    struct end ends[2];
    uv_loop_t other;
    unsigned sent = 0;
    uint8_t *message = calloc(1, 60000);
    uv_loop_init(&other);
    struct fabric_config config = ends_config(0, ENDS_PATIENCE_MS);
    end_open(&ends[0], &other, &config);
    config = ends_config(1, ENDS_PATIENCE_MS);
    end_open(&ends[1], &ends_loop, &config);
    end_connect(&ends[1], &ends[0]);
    ends_wait_number(&ends_loop, &ends[1].joined, 1);
    for (uint64_t until = ends_now_ms() + 1000; ends_now_ms() < until;) {
        if (fabric_send(ends[1].peer, message, 60000) == 0)
            sent++;
        else
            ends_run(&ends_loop, 20);
    }
    assert_in_range(sent, 16, (8u << 20) / 60000); /* the queue's bytes and the window's, no more */
    ends_wait_count(&other, &ends[0].received, sent);
    end_close(&ends[1], &ends_loop);
    end_close(&ends[0], &other);
    assert_int_equal(uv_loop_close(&other), 0);
    free(message);
}

static void both_speak_first(void **state)
{
    (void)state;
    struct end ends[2];
    for (unsigned round = 0; round < 5; round++) {
        ends_open_two(ends, ENDS_PATIENCE_MS);
        end_connect(&ends[0], &ends[1]);
        end_connect(&ends[1], &ends[0]);
        assert_null(fabric_connect(ends[0].fabric, &ends[1].config.self, &ends[1].address, NULL));
        assert_int_equal(errno, EEXIST);
        ends_wait_number(&ends_loop, &ends[0].joined, 1);
        ends_wait_number(&ends_loop, &ends[1].joined, 1);
        end_send(&ends_loop, &ends[0], 0, 100);
        end_send(&ends_loop, &ends[1], 0, 100);
        ends_wait_count(&ends_loop, &ends[0].received, 1);
        ends_wait_count(&ends_loop, &ends[1].received, 1);
        assert_int_equal(ends[0].joined + ends[1].joined, 2);
        ends_close_two(ends);
    }
}

static void three_talk(void **state)
{
    (void)state;
    struct end ends[3];
    for (uint32_t i = 0; i < 3; i++) {
        struct fabric_config config = ends_config(i, ENDS_PATIENCE_MS);
        config.mode = FABRIC_MODE_ENCRYPT;
        end_open(&ends[i], &ends_loop, &config);
    }
    ends[0].echoes = true;
    end_connect(&ends[1], &ends[0]);
    end_connect(&ends[2], &ends[0]);
    for (unsigned i = 1; i < 3; i++)
        ends_wait_number(&ends_loop, &ends[i].joined, 1);
    ends_wait_number(&ends_loop, &ends[0].joined, 2);
    for (unsigned i = 0; i < 200; i++)
        for (unsigned from = 1; from < 3; from++)
            end_send(&ends_loop, &ends[from], i, 3000);
    for (unsigned i = 1; i < 3; i++) {
        ends_wait_count(&ends_loop, &ends[i].received, 200);
        assert_true(ends[i].is_in_order);
    }
    for (unsigned i = 0; i < 3; i++)
        end_close(&ends[i], &ends_loop);
}

static void new_epoch_begins_anew(void **state)
{
    (void)state;
    struct end ends[2];
    ends_open_two(ends, ENDS_PATIENCE_MS);
    ends_join(&ends_loop, &ends[1], &ends[0]);
    const struct fabric_epoch next = {.number = 2, .secret = {1}};
    fabric_enter_epoch(ends[0].fabric, &next);
    fabric_enter_epoch(ends[1].fabric, &next);
    ends_wait_number(&ends_loop, &ends[0].lost, 1);
    ends_wait_number(&ends_loop, &ends[1].lost, 1);
    end_connect(&ends[1], &ends[0]);
    ends_wait_number(&ends_loop, &ends[0].joined, 2);
    ends_wait_number(&ends_loop, &ends[1].joined, 2);
    end_send(&ends_loop, &ends[1], 0, 100);
    ends_wait_count(&ends_loop, &ends[0].received, 1);
    ends_close_two(ends);
}

/* An agent of its own process, which answers each message; returns its pid and address. */
static pid_t spawn(const struct fabric_config *config, struct fabric_address *address)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        uv_loop_t own;
        struct end end;
        uv_loop_init(&own);
        end_open(&end, &own, config);
        end.echoes = true;
        ssize_t put = write(ends[1], &end.address, sizeof end.address);
        close(ends[1]);
        (void)put;
        for (;;)
            uv_run(&own, UV_RUN_ONCE);
    }
    assert_true(pid > 0);
    close(ends[1]);
    assert_int_equal(read(ends[0], address, sizeof *address), sizeof *address);
    close(ends[0]);
    return pid;
}

static void end_process(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void killed_or_stopped_peer_is_lost(void **state)
{
    (void)state;
    static const int signals[] = {SIGKILL, SIGSTOP};
    const uint64_t stall_ms = 3 * ENDS_STALL_MS;
    for (unsigned i = 0; i < 2; i++) {
        struct fabric_address address;
        struct fabric_config config = ends_config(1, stall_ms);
        struct end end;
        pid_t pid = spawn(&config, &address);
        config = ends_config(0, stall_ms);
        end_open(&end, &ends_loop, &config);
        struct fabric_identity identity = ends_config(1, 0).self;
        assert_non_null(fabric_connect(end.fabric, &identity, &address, NULL));
        ends_wait_number(&ends_loop, &end.joined, 1);
        end_send(&ends_loop, &end, 0, 100);
        ends_wait_count(&ends_loop, &end.received, 1);
        ends_run(&ends_loop, 2 * stall_ms); /* who is silent but lives is not lost */
        assert_int_equal(end.lost, 0);
        uint64_t at_ms = ends_now_ms();
        kill(pid, signals[i]);
        ends_wait_number(&ends_loop, &end.lost, 1);
        uint64_t took_ms = ends_now_ms() - at_ms;
        printf("# lost after %llu ms\n", (unsigned long long)took_ms);
        /* Not before all that was heard of it is as old as that. */
        assert_in_range(took_ms, stall_ms / 2, 10 * stall_ms);
        end_close(&end, &ends_loop);
        end_process(pid);
    }
}

/* A loop that works for long: heartbeats go on, nobody is lost. */
static void busy_loop_is_not_lost(void **state)
{
    (void)state;
    struct fabric_address address;
    struct fabric_config config = ends_config(1, 2 * ENDS_STALL_MS);
    struct end end;
    pid_t pid = spawn(&config, &address);
    config = ends_config(0, 2 * ENDS_STALL_MS);
    end_open(&end, &ends_loop, &config);
    struct fabric_identity identity = ends_config(1, 0).self;
    assert_non_null(fabric_connect(end.fabric, &identity, &address, NULL));
    ends_wait_number(&ends_loop, &end.joined, 1);
    sleep(5); /* this is the loop's thread */
    end_send(&ends_loop, &end, 0, 100);
    ends_wait_count(&ends_loop, &end.received, 1);
    assert_int_equal(end.lost, 0);
    end_close(&end, &ends_loop);
    end_process(pid);
}

/* Two idle agents with a session, all threads. */
static void idle_costs_nothing(void **state)
{
    (void)state;
    struct end ends[2];
    struct timespec before, after;
    ends_open_two(ends, 5000);
    ends_join(&ends_loop, &ends[1], &ends[0]);
    ends_run(&ends_loop, 500);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    sleep(4);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    double used = (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9;
    printf("# %.3f %% of a processor for each\n", used / 4 / 2 * 100);
    assert_true(used / 4 / 2 <= 0.001);
    ends_close_two(ends);
}

/* Bits that flip on the wire: those frames count as not come, and come again. */
static void flipped_bits_are_found(void **state)
{
    (void)state;
    struct end ends[2];
    struct fabric_counts counts[2];
    ends_open_two(ends, ENDS_PATIENCE_MS / 12);
    ends_join(&ends_loop, &ends[1], &ends[0]);
    setenv("BELAY_FAULT", "fabric.frame@0#40=error,fabric.frame@0#41=error,fabric.frame@0#90=error", 1);
    for (unsigned i = 0; i < 200; i++)
        end_send(&ends_loop, &ends[1], i, 500);
    ends_wait_count(&ends_loop, &ends[0].received, 200);
    unsetenv("BELAY_FAULT");
    assert_true(ends[0].is_in_order);
    for (unsigned i = 0; i < 2; i++)
        fabric_read_counts(ends[i].fabric, &counts[i]);
    assert_in_range(counts[0].frames_refused + counts[1].frames_refused, 1, 3);
    assert_true(counts[1].frames_repeated > 0);
    assert_int_equal(ends[0].lost + ends[1].lost, 0);
    ends_close_two(ends);
}

/* The provider for agents on one node, which has no descriptor to wait for and other rules for memory. */
static void shared_memory_serves_too(void **state)
{
    (void)state;
    struct end ends[2];
    for (uint32_t i = 0; i < 2; i++) {
        struct fabric_config config = ends_config(i, ENDS_PATIENCE_MS);
        config.provider = "shm";
        end_open(&ends[i], &ends_loop, &config);
    }
    ends_join(&ends_loop, &ends[1], &ends[0]);
    for (unsigned i = 0; i < 500; i++)
        end_send(&ends_loop, &ends[1], i, 5000);
    ends_wait_count(&ends_loop, &ends[0].received, 500);
    assert_true(ends[0].is_in_order);
    struct supply supply = {.bytes = ENDS_PUSH_BYTES};
    assert_non_null(fabric_push(ends[1].peer, "tag", 4, supply.bytes, supply_fill, &supply));
    ends_wait_count(&ends_loop, &ends[1].pushed, 1);
    assert_int_equal(ends[1].push_error, 0);
    assert_true(ends[0].is_sound && ends[0].pulled_bytes == ENDS_PUSH_BYTES);
    ends_close_two(ends);
}

static void bad_configurations_are_refused(void **state)
{
    (void)state;
    static const struct fabric_ops none;
    struct belay_error err;
    struct fabric_config config = ends_config(0, 0);
    config.provider = "nosuch";
    assert_null(fabric_create(&ends_loop, &config, &none, NULL, &err));
    assert_non_null(strstr(err.text, "nosuch"));
    config.provider = "shm";
    config.interface = "192.0.2.1"; /* nobody can be reached there */
    assert_null(fabric_create(&ends_loop, &config, &none, NULL, &err));
    assert_non_null(strstr(err.text, "one machine only"));
    config = ends_config(0, 0);
    config.interface = "192.0.2.1"; /* for documentation (RFC 5737): nobody has it */
    assert_null(fabric_create(&ends_loop, &config, &none, NULL, &err));
    config = ends_config(0, 0);
    memset(config.key, 0, sizeof config.key);
    assert_null(fabric_create(&ends_loop, &config, &none, NULL, &err));
    assert_int_equal(err.code, EINVAL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, ends_begin, ends_end)
    const struct CMUnitTest tests[] = {
        TEST(messages_arrive_in_order),
        TEST(loop_that_stands_holds_sender_back),
        TEST(both_speak_first),
        TEST(three_talk),
        TEST(new_epoch_begins_anew),
        TEST(killed_or_stopped_peer_is_lost),
        TEST(busy_loop_is_not_lost),
        TEST(idle_costs_nothing),
        TEST(flipped_bits_are_found),
        TEST(shared_memory_serves_too),
        TEST(bad_configurations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
