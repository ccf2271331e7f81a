/*
 * host_test.c - a line over two members: the host speaks with them in encoded messages over links only. The
 * members are played by this test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire/peer_message.h"
#include "node-agent/host/host.h"
#include "node-agent/link/loopback.h"

#define EPOCH 5u
#define HOST_NODE 7u
#define MEMBERS 2u
#define RANKS 3u
#define LAST_LINE 11u
#define MS 1000000ull

/* One that says of each order what it is to say, up to one of them. */
struct fake {
    struct link *link;
    uint32_t node;
    uint32_t ranks[RANKS], rank_count;
    enum peer_kind silent_from; /* it answers no order from this one on; 0: all */
    char orders[256];
    uint64_t line;
    uint32_t version;
    uint64_t target; /* of communicator 1, in the newest order */
    bool is_lost;
};

static uv_loop_t loop;
static struct agent agent;
static struct job job;
static Belay__Wire__JobOpen config;
static Belay__Wire__JobSettings settings;
static struct line_host *host;
static struct fake fakes[MEMBERS];

static void say_message(struct fake *fake, struct peer_message message)
{
    size_t count = 0;
    message.role = PEER_MEMBER;
    message.node = fake->node;
    message.epoch = EPOCH;
    uint8_t *bytes = peer_message_pack(&message, &count);
    assert_non_null(bytes);
    link_send(fake->link, bytes, count);
}

static void say(struct fake *fake, enum peer_kind kind)
{
    say_message(fake, (struct peer_message){.kind = kind, .line = fake->line});
}

static void say_ready(struct fake *fake)
{
    say_message(fake, (struct peer_message){
                          .kind = PEER_READY, .ranks = fake->ranks, .rank_count = fake->rank_count});
}

/* Its ranks have been in as many collectives as their number says. */
static void say_clocks(struct fake *fake)
{
    struct coord_clock clock = {.comm = 1};
    for (uint32_t i = 0; i < fake->rank_count; i++)
        clock.seq = fake->ranks[i];
    say_message(fake, (struct peer_message){.kind = PEER_CLOCKS,
                                            .line = fake->line,
                                            .clocks = &clock,
                                            .clock_count = fake->rank_count > 0});
}

static void say_report(struct fake *fake, uint32_t rank)
{
    say_message(fake, (struct peer_message){.kind = PEER_REPORT,
                                            .line = fake->line,
                                            .targets_version = fake->version,
                                            .report = {.rank = rank, .state = PEER_RANK_RUNNING}});
}

static void say_measured(struct fake *fake, enum peer_kind kind, struct peer_measures measures)
{
    say_message(fake, (struct peer_message){.kind = kind, .line = fake->line, .measures = measures});
}

static void answer(struct fake *fake, const struct peer_message *order)
{
    uint64_t more = fake->node; /* 10 or 20 */
    switch (order->kind) {
    case PEER_PREPARE:
        say(fake, PEER_PREPARED);
        break;
    case PEER_STROBE:
        say_clocks(fake);
        break;
    case PEER_TARGETS:
        for (uint32_t i = 0; i < fake->rank_count; i++)
            say_report(fake, fake->ranks[i]);
        break;
    case PEER_STOP:
        say(fake, PEER_STOPPED);
        break;
    case PEER_DRAIN:
        say(fake, PEER_PARKED);
        break;
    case PEER_CAPTURE:
        say_measured(fake, PEER_CAPTURED,
                     (struct peer_measures){.drain_ns = more * MS,
                                            .dirty_bytes = more,
                                            .captured_bytes = 2 * more,
                                            .guarded = {more, more, more, more, more, more}});
        break;
    case PEER_PROTECT:
        say(fake, PEER_PROTECTED);
        break;
    case PEER_COMMIT:
        say_measured(fake, PEER_RECORDED, (struct peer_measures){.image_bytes = 100 * more});
        say(fake, PEER_COMMITTED);
        say_measured(fake, PEER_RESUMED,
                     (struct peer_measures){
                         .pause_ns = more * MS, .felt_ns = 2 * more * MS, .image_bytes = 100 * more});
        break;
    default:
        break;
    }
}

static void on_received(void *context, const uint8_t *bytes, size_t count)
{
    struct fake *fake = context;
    const struct peer_expected expected = {
        .role = PEER_HOST, .node = HOST_NODE, .epoch = EPOCH, .ranks = RANKS};
    struct peer_message order;
    struct belay_error err;
    struct peer_unpacked *unpacked = peer_message_unpack(bytes, count, &expected, &order, &err);
    size_t used = strlen(fake->orders);
    assert_non_null(unpacked);
    snprintf(fake->orders + used, sizeof fake->orders - used, "%d ", order.kind);
    fake->line = order.line;
    if (order.kind == PEER_TARGETS) {
        fake->version = order.targets_version;
        fake->target = order.clock_count > 0 ? order.clocks[0].seq : 0;
    }
    if (!fake->silent_from || order.kind < fake->silent_from)
        answer(fake, &order);
    peer_message_release(unpacked);
}

static void on_lost(void *context, const char *reason)
{
    struct fake *fake = context;
    assert_non_null(reason);
    fake->is_lost = true;
}

static const struct link_ops ops = {.received = on_received, .lost = on_lost};

static void open_epoch(void)
{
    struct line_host_peer peers[MEMBERS];
    struct belay_error err;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct link *ends[2];
        assert_int_equal(loopback_create(&loop, ends), 0);
        fakes[i] = (struct fake){.link = ends[1], .node = 10 * (i + 1)};
        peers[i] = (struct line_host_peer){.node = fakes[i].node, .link = ends[0]};
        link_open(ends[1], &ops, &fakes[i]);
    }
    const struct line_host_epoch epoch = {.number = EPOCH,
                                          .node = HOST_NODE,
                                          .ranks = RANKS,
                                          .last_line = LAST_LINE,
                                          .peers = peers,
                                          .peer_count = MEMBERS};
    assert_int_equal(line_host_open_epoch(host, &epoch, &err), 0);
    fakes[0].ranks[0] = 0; /* neither has a dense range */
    fakes[0].ranks[1] = 2;
    fakes[0].rank_count = 2;
    fakes[1].ranks[0] = 1;
    fakes[1].rank_count = 1;
}

static int setup(void **state)
{
    struct belay_error err;
    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    agent = (struct agent){.loop = &loop};
    belay__wire__job_open__init(&config);
    belay__wire__job_settings__init(&settings);
    config.settings = &settings;
    settings.interval_ms = 5;
    job = (struct job){.agent = &agent, .name = "job", .config = &config};
    host = line_host_create(&job, &err);
    assert_non_null(host);
    open_epoch();
    return 0;
}

static void drop(struct fake *fake)
{
    link_destroy(fake->link);
    fake->link = NULL;
}

static int teardown(void **state)
{
    (void)state;
    line_host_destroy(host);
    for (uint32_t i = 0; i < MEMBERS; i++)
        drop(&fakes[i]);
    uv_run(&loop, UV_RUN_DEFAULT);
    history_release(&job.history);
    return uv_loop_close(&loop);
}

static const struct history_line *first_line(void)
{
    return history_line(&job.history, LAST_LINE + 1);
}

static bool is_first_line(enum line_state line_state)
{
    const struct history_line *entry = first_line();
    return entry && entry->state == line_state;
}

static void note_end(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* Run the loop for so long, or until the line has this state, if it is one. */
static void run_for(uint64_t ms, enum line_state line_state)
{
    uv_timer_t limit;
    bool is_over = false;
    uv_timer_init(&loop, &limit);
    limit.data = &is_over;
    uv_timer_start(&limit, note_end, ms, 0);
    while (!is_over && !(line_state != LINE_STATE_NONE && is_first_line(line_state)))
        uv_run(&loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&limit, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void run_until(enum line_state line_state)
{
    run_for(10000, line_state);
    assert_true(is_first_line(line_state));
}

/* Long enough for several lines to begin. */
static void run_on(void)
{
    run_for(50, LINE_STATE_NONE);
}

static void both_ready(void)
{
    say_ready(&fakes[0]);
    say_ready(&fakes[1]);
}

static void a_line_takes_its_way_over_both(void **state)
{
    (void)state;
    both_ready();
    run_until(LINE_STATE_COMMITTED);
    settings.interval_ms = 0;
    run_on();
    const struct history_line *entry = first_line();
    for (uint32_t i = 0; i < MEMBERS; i++) {
        assert_memory_equal(fakes[i].orders, "1 2 3 4 5 6 7 8 ", 16);
        assert_int_equal(fakes[i].target, 2); /* the largest of all members' clocks */
    }
    assert_true(entry->pause_ms == 20 && entry->felt_pause_ms == 40 && entry->drain_ms == 20);
    assert_int_equal(entry->dirty_bytes, 30);
    assert_int_equal(entry->captured_bytes, 60);
    const struct peer_guarded guarded = {30, 30, 20, 20, 30, 30}; /* sums, but of the fault and the pool */
    assert_memory_equal(&entry->guarded, &guarded, sizeof guarded);
    assert_int_equal(entry->image_bytes, 3000);
}

static void no_line_before_all_are_ready(void **state)
{
    (void)state;
    say_ready(&fakes[0]);
    run_on();
    assert_null(first_line());
    assert_string_equal(fakes[0].orders, "");
    say_ready(&fakes[1]);
    run_until(LINE_STATE_COMMITTED);
}

static void a_member_may_have_no_ranks(void **state)
{
    (void)state;
    fakes[0].ranks[1] = 1;
    fakes[0].ranks[2] = 2;
    fakes[0].rank_count = 3;
    fakes[1].rank_count = 0;
    both_ready();
    run_until(LINE_STATE_COMMITTED);
    assert_memory_equal(fakes[1].orders, "1 2 3 4 5 6 7 8 ", 16);
}

static void a_rank_has_one_member(void **state)
{
    (void)state;
    fakes[1].ranks[0] = 2;
    both_ready();
    run_on();
    assert_null(first_line());
}

static void a_rank_that_nobody_has(void **state)
{
    (void)state;
    fakes[0].rank_count = 1;
    both_ready();
    run_on();
    assert_null(first_line());
}

static void a_member_speaks_for_its_own_ranks(void **state)
{
    (void)state;
    fakes[0].silent_from = PEER_TARGETS;
    both_ready();
    run_until(LINE_STATE_RUNNING);
    run_on();
    say_report(&fakes[1], 2);
    run_until(LINE_STATE_ABORTED);
    assert_non_null(strstr(first_line()->reason, "node 20"));
    assert_non_null(strstr(fakes[0].orders, "9 "));
}

static void what_cannot_be_read_is_a_loss(void **state)
{
    (void)state;
    fakes[0].silent_from = PEER_PREPARE;
    both_ready();
    run_until(LINE_STATE_RUNNING);
    link_send(fakes[1].link, (uint8_t *)strdup("nonsense"), 8);
    run_until(LINE_STATE_ABORTED);
    assert_non_null(strstr(first_line()->reason, "malformed"));
}

static void a_member_is_lost_in_a_line(void **state)
{
    (void)state;
    fakes[0].silent_from = PEER_CAPTURE;
    both_ready();
    run_until(LINE_STATE_RUNNING);
    while (!strstr(fakes[0].orders, "6 "))
        uv_run(&loop, UV_RUN_ONCE);
    drop(&fakes[1]);
    run_until(LINE_STATE_ABORTED);
    assert_memory_equal(fakes[0].orders, "1 2 3 4 5 6 9 ", 14);
    run_on(); /* no line follows in this epoch */
    assert_null(history_line(&job.history, LAST_LINE + 2));
}

/* Ranks of the others must not wait in the drain for what this one's cannot do. */
static void all_leave_a_drain_that_one_cannot_finish(void **state)
{
    (void)state;
    fakes[0].silent_from = PEER_DRAIN;
    both_ready();
    while (!strstr(fakes[0].orders, "5 "))
        uv_run(&loop, UV_RUN_ONCE);
    say_message(&fakes[0],
                (struct peer_message){.kind = PEER_ABORTED, .line = fakes[0].line, .reason = "no memory"});
    while (!strstr(fakes[0].orders, "10 ") || !strstr(fakes[1].orders, "10 "))
        uv_run(&loop, UV_RUN_ONCE);
    assert_true(is_first_line(LINE_STATE_RUNNING));
    say(&fakes[0], PEER_PARKED);
    run_until(LINE_STATE_ABORTED);
    assert_string_equal(first_line()->reason, "no memory");
    assert_memory_equal(fakes[0].orders, "1 2 3 4 5 10 9 ", 15);
    assert_memory_equal(fakes[1].orders, "1 2 3 4 5 10 9 ", 15);
}

static void a_loss_before_all_are_ready_counts(void **state)
{
    (void)state;
    say_ready(&fakes[0]);
    say_message(&fakes[0], (struct peer_message){.kind = PEER_LOST, .reason = "rank 0 was lost"});
    say_ready(&fakes[1]);
    run_on();
    assert_null(first_line());
}

static void one_member_cannot_record(void **state)
{
    (void)state;
    fakes[0].silent_from = PEER_COMMIT;
    both_ready();
    run_until(LINE_STATE_PROTECTED);
    while (!strstr(fakes[0].orders, "8 "))
        uv_run(&loop, UV_RUN_ONCE);
    say_message(&fakes[0],
                (struct peer_message){.kind = PEER_UNRECORDED, .line = LAST_LINE + 1, .reason = "full"});
    run_on(); /* the next epoch knows what becomes of it */
    assert_true(is_first_line(LINE_STATE_PROTECTED));
    line_host_close_epoch(host, LAST_LINE + 1);
    assert_int_equal(first_line()->state, LINE_STATE_COMMITTED);
}

static void an_epoch_ends_in_a_line(void **state)
{
    (void)state;
    fakes[0].silent_from = PEER_CAPTURE;
    both_ready();
    run_until(LINE_STATE_RUNNING);
    line_host_close_epoch(host, 0);
    assert_int_equal(first_line()->state, LINE_STATE_ABORTED);
    run_on();
    assert_true(fakes[0].is_lost && fakes[1].is_lost); /* the links have gone with the epoch */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_takes_its_way_over_both, setup, teardown),
        cmocka_unit_test_setup_teardown(no_line_before_all_are_ready, setup, teardown),
        cmocka_unit_test_setup_teardown(a_member_may_have_no_ranks, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rank_has_one_member, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rank_that_nobody_has, setup, teardown),
        cmocka_unit_test_setup_teardown(a_member_speaks_for_its_own_ranks, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_is_a_loss, setup, teardown),
        cmocka_unit_test_setup_teardown(a_member_is_lost_in_a_line, setup, teardown),
        cmocka_unit_test_setup_teardown(all_leave_a_drain_that_one_cannot_finish, setup, teardown),
        cmocka_unit_test_setup_teardown(a_loss_before_all_are_ready_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(one_member_cannot_record, setup, teardown),
        cmocka_unit_test_setup_teardown(an_epoch_ends_in_a_line, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
