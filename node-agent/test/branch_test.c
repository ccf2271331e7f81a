/*
 * branch_test.c - a branch between its parent and those below it, in encoded messages over links. All of them
 * are played by this test: four members in a tree of two children each, the root's branch, rank i on member
 * i.
 */
#include "node-agent/host/branch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire/peer_message.h"
#include "node-agent/link/loopback.h"

#define EPOCH 5u
#define LINE 9u
#define RANKS 4u
#define VOICES 3u /* the own member, the branch of members 1 and 2, member 3 */
#define UP VOICES

static const uint32_t members[RANKS] = {10, 11, 12, 13}; /* nodes */
static const uint32_t voices[VOICES] = {10, 11, 13};
static const uint32_t placement[RANKS] = {0, 1, 2, 3};

/* The other end of one of its links. */
struct fake {
    struct link *link;
    char heard[512];
    struct peer_measures measures; /* of the last message */
    bool is_lost;
};

static uv_loop_t loop;
static struct job job;
static struct line_branch *branch;
static struct fake fakes[VOICES + 1];

static void on_received(void *context, const uint8_t *bytes, size_t count)
{
    struct fake *fake = context;
    bool is_up = fake == &fakes[UP];
    const struct peer_expected expected = {
        .role = is_up ? PEER_MEMBER : PEER_HOST, .node = 10, .epoch = EPOCH, .ranks = RANKS};
    struct peer_message message;
    struct belay_error err;
    struct peer_unpacked *unpacked = peer_message_unpack(bytes, count, &expected, &message, &err);
    size_t used = strlen(fake->heard);
    assert_non_null(unpacked);
    used += (size_t)snprintf(fake->heard + used, sizeof fake->heard - used, "%s%d", used ? " " : "",
                             (int)message.kind);
    for (uint32_t i = 0; i < message.rank_count; i++)
        used += (size_t)snprintf(fake->heard + used, sizeof fake->heard - used, ":%u", message.ranks[i]);
    if (message.reason)
        snprintf(fake->heard + used, sizeof fake->heard - used, " (%s)", message.reason);
    fake->measures = message.measures;
    peer_message_release(unpacked);
}

static void on_lost(void *context, const char *reason)
{
    struct fake *fake = context;
    (void)reason;
    fake->is_lost = true;
    link_destroy(fake->link);
    fake->link = NULL;
}

static const struct link_ops ops = {.received = on_received, .lost = on_lost};

static void turn(void)
{
    while (uv_run(&loop, UV_RUN_NOWAIT))
        ;
}

static int setup(void **state)
{
    struct link *upper[VOICES], *lower[VOICES], *up[2];
    struct belay_error err;
    (void)state;
    uv_loop_init(&loop);
    job = (struct job){0};
    snprintf(job.name, sizeof job.name, "job");
    memset(fakes, 0, sizeof fakes);
    for (uint32_t i = 0; i < VOICES; i++) {
        struct link *both[2];
        if (loopback_create(&loop, both) < 0)
            return -1;
        upper[i] = both[0];
        lower[i] = both[1];
        fakes[i].link = lower[i];
    }
    if (loopback_create(&loop, up) < 0)
        return -1;
    fakes[UP].link = up[0];
    for (uint32_t i = 0; i <= UP; i++)
        link_open(fakes[i].link, &ops, &fakes[i]);
    const struct line_branch_epoch epoch = {
        .number = EPOCH,
        .node = 10,
        .parent = 10,
        .place = {.tree = {.count = RANKS, .arity = 2}, .rank_count = RANKS, .placement = placement},
        .members = members,
        .up = up[1],
        .below = upper};
    branch = line_branch_create(&job, &epoch, &err);
    return branch ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    line_branch_destroy(branch);
    for (uint32_t i = 0; i <= UP; i++)
        link_destroy(fakes[i].link);
    turn();
    return uv_loop_close(&loop);
}

static void send_message(uint32_t from, struct peer_message message)
{
    size_t count = 0;
    message.role = from == UP ? PEER_HOST : PEER_MEMBER;
    message.node = from == UP ? 10 : voices[from];
    message.epoch = EPOCH;
    uint8_t *bytes = peer_message_pack(&message, &count);
    assert_non_null(bytes);
    link_send(fakes[from].link, bytes, count);
    turn();
}

static void say(uint32_t voice, enum peer_kind kind)
{
    send_message(voice, (struct peer_message){.kind = kind, .line = LINE});
}

static void say_ready(uint32_t voice, const uint32_t *ranks, uint32_t count)
{
    send_message(voice, (struct peer_message){.kind = PEER_READY, .ranks = ranks, .rank_count = count});
}

static void assert_heard(uint32_t by, const char *expected)
{
    assert_string_equal(fakes[by].heard, expected);
    fakes[by].heard[0] = '\0';
}

static void assert_all_heard(const char *expected)
{
    for (uint32_t i = 0; i < VOICES; i++)
        assert_heard(i, expected);
}

static void ready_is_said_once_with_all_ranks(void **state)
{
    const uint32_t group[] = {1, 2}, own[] = {0}, leaf[] = {3};
    (void)state;
    say_ready(1, group, 2);
    say_ready(2, leaf, 1);
    assert_heard(UP, "");
    say_ready(0, own, 1);
    assert_heard(UP, "20:0:1:2:3");
    say_ready(2, NULL, 0);
    assert_heard(UP, "35 (the agent of node 13 is lost: it says twice that its ranks run)");
    say_ready(2, NULL, 0); /* it is not heard any more */
    assert_heard(UP, "");
}

static void ranks_of_others_are_not_believed(void **state)
{
    const uint32_t others[] = {1, 3};
    (void)state;
    say_ready(2, others, 2);
    assert_heard(UP, "35 (the agent of node 13 is lost: it names ranks that are not its own)");
}

static void orders_go_down_and_words_are_merged_with_their_measures(void **state)
{
    (void)state;
    send_message(UP, (struct peer_message){.kind = PEER_PREPARE, .line = LINE});
    assert_all_heard("1");
    for (uint32_t i = 0; i < VOICES; i++)
        say(i, PEER_PREPARED);
    assert_heard(UP, "22");
    send_message(UP, (struct peer_message){.kind = PEER_CAPTURE, .line = LINE});
    assert_all_heard("6");
    for (uint32_t i = 0; i < VOICES; i++)
        send_message(i, (struct peer_message){.kind = PEER_CAPTURED,
                                              .line = LINE,
                                              .measures = {.drain_ns = 10 * (i + 1), .dirty_bytes = i + 1}});
    assert_heard(UP, "27");
    assert_int_equal(fakes[UP].measures.drain_ns, 30);
    assert_int_equal(fakes[UP].measures.dirty_bytes, 6);
    for (uint32_t i = 0; i < VOICES; i++)
        say(i, PEER_RECORDED);
    assert_heard(UP, "29");
    for (uint32_t i = 1; i < VOICES; i++)
        say(i, PEER_RESUMED);
    send_message(UP, (struct peer_message){.kind = PEER_PREPARE, .line = LINE + 1});
    say(0, PEER_RESUMED); /* of the line before */
    assert_heard(UP, "33");
    assert_int_equal(fakes[UP].measures.dirty_bytes, 6);
}

static void what_concerns_one_alone_goes_up_as_it_is(void **state)
{
    (void)state;
    send_message(1, (struct peer_message){.kind = PEER_NOTICE, .reason = "text"});
    send_message(1, (struct peer_message){.kind = PEER_CLOSE});
    send_message(2, (struct peer_message){.kind = PEER_CLOSE});
    send_message(2, (struct peer_message){.kind = PEER_LOST, .reason = "gone"});
    assert_heard(UP, "37 (text) 36 35 (gone)");
}

static void a_lost_child_is_told(void **state)
{
    (void)state;
    link_destroy(fakes[1].link);
    fakes[1].link = NULL;
    turn();
    assert_heard(UP, "35 (the agent of node 11 is lost: the other end has gone)");
    assert_false(fakes[0].is_lost);
}

/* The own member is told to abort; the children hear that their parent has gone. */
static void a_lost_parent_ends_the_line(void **state)
{
    (void)state;
    send_message(UP, (struct peer_message){.kind = PEER_PREPARE, .line = LINE});
    assert_all_heard("1");
    link_destroy(fakes[UP].link);
    fakes[UP].link = NULL;
    turn();
    assert_heard(0, "9 (the host of the line is lost)");
    assert_false(fakes[0].is_lost);
    assert_true(fakes[1].is_lost && fakes[2].is_lost);
    say(0, PEER_PREPARED); /* nobody hears it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ready_is_said_once_with_all_ranks, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_of_others_are_not_believed, setup, teardown),
        cmocka_unit_test_setup_teardown(orders_go_down_and_words_are_merged_with_their_measures, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_concerns_one_alone_goes_up_as_it_is, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_child_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_parent_ends_the_line, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
