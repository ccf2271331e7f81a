/* remote_test.c - links over the fabric: order, what waits, who hears of an end. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "node-agent/link/remote.h"

#define STALL_MS 30000u /* nothing here waits for it */
#define SHORT_STALL_MS 500u
#define PATIENCE_MS 120000u /* until a test fails */
#define MESSAGES 5000u

/* An agent with one link. */
struct agent {
    struct remotes *remotes;
    struct fabric_identity identity;
    struct fabric_address address;
    struct link *link;
    unsigned came;
    uint64_t received; /* messages, each with its number */
    bool is_in_order, is_sending, is_lost, destroys_at_once;
    bool stays_closed; /* does not open what comes */
    unsigned news[REMOTE_SILENT + 1];
    char reason[96];
};

static uv_loop_t loop;
static struct agent agents[2];
static const struct fabric_epoch epoch_five = {.number = 5};

static void on_received(void *context, const uint8_t *bytes, size_t count)
{
    struct agent *agent = context;
    uint64_t number;
    assert_false(agents[0].is_sending || agents[1].is_sending || agent->is_lost);
    assert_true(count >= sizeof number);
    memcpy(&number, bytes, sizeof number);
    agent->is_in_order &= number == agent->received++;
    if (agent->destroys_at_once) {
        link_destroy(agent->link);
        agent->link = NULL;
    }
}

static void on_lost(void *context, const char *reason)
{
    struct agent *agent = context;
    assert_false(agents[0].is_sending || agents[1].is_sending || agent->is_lost);
    agent->is_lost = true;
    snprintf(agent->reason, sizeof agent->reason, "%s", reason);
}

static const struct link_ops ops = {.received = on_received, .lost = on_lost};

static void on_came(void *context, const struct fabric_identity *identity, struct link *link)
{
    struct agent *agent = context;
    assert_int_equal(identity->node, 1 - agent->identity.node);
    agent->came++;
    agent->link = link;
    if (!agent->stays_closed)
        link_open(link, &ops, agent);
}

static void on_news(void *context, const struct fabric_identity *identity, enum remote_news news)
{
    struct agent *agent = context;
    assert_int_equal(identity->node, 1 - agent->identity.node);
    agent->news[news]++;
}

static int setup_with(uint64_t stall_ms, bool is_patient)
{
    assert_int_equal(uv_loop_init(&loop), 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct belay_error err;
        struct fabric_config config = {.interface = "127.0.0.1",
                                       .mode = FABRIC_MODE_AUTHENTICATE,
                                       .key = {1},
                                       .self = {FABRIC_ROLE_MEMBER, i, 7 + i},
                                       .stall_ms = stall_ms,
                                       .is_patient = is_patient,
                                       .is_open = true,
                                       .slabs = 1,
                                       .slab_bytes = 4096};
        agents[i] = (struct agent){.identity = config.self, .is_in_order = true};
        agents[i].remotes = remotes_create(&loop, &config, on_came, &agents[i], &err);
        assert_non_null(agents[i].remotes);
        remotes_address(agents[i].remotes, &agents[i].address);
        remotes_hear_news(agents[i].remotes, on_news);
    }
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return setup_with(STALL_MS, false);
}

static int setup_patient(void **state)
{
    (void)state;
    return setup_with(SHORT_STALL_MS, true);
}

static int teardown(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        link_destroy(agents[i].link);
        remotes_destroy(agents[i].remotes);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop); /* fails if something is left in it */
}

/* ---- words and data beside the link ---- */

#define DATA_BYTES 50000u

/* What agent 0 pushes, and agent 1 takes. */
struct cargo {
    uint64_t given, taken;
    bool is_right;
    unsigned pushed, pulled, words, losses;
    int push_error, pull_error, refuse_with;
};

static struct cargo cargo;

static ssize_t give(void *context, uint8_t *to, size_t room)
{
    struct cargo *of = context;
    uint64_t left = DATA_BYTES - of->given, count = left < room ? left : room;
    for (uint64_t i = 0; i < count; i++)
        to[i] = (uint8_t)((of->given + i) % 251);
    of->given += count;
    return (ssize_t)count;
}

static int take(void *context, uint64_t offset, const uint8_t *bytes, size_t count)
{
    struct cargo *of = context;
    for (size_t i = 0; i < count; i++)
        of->is_right &= bytes[i] == (uint8_t)((offset + i) % 251);
    of->taken += count;
    return 0;
}

static void on_given(void *context, int error)
{
    struct cargo *of = context;
    of->pushed++;
    of->push_error = error;
}

static void on_taken(void *context, int error)
{
    struct cargo *of = context;
    of->pulled++;
    of->pull_error = error;
}

static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count)
{
    struct cargo *of = context;
    assert_int_equal(node, 0);
    assert_int_equal(count, 4);
    assert_memory_equal(bytes, "held", 4);
    of->words++;
}

static int on_offer(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                    struct transfer_intake *intake)
{
    const struct cargo *of = context;
    assert_int_equal(node, 0);
    assert_int_equal(tag_bytes, 3);
    assert_memory_equal(tag, "tag", 3);
    assert_int_equal(bytes, DATA_BYTES);
    *intake = (struct transfer_intake){.take = take, .done = on_taken, .context = context};
    return of->refuse_with;
}

static void on_link_lost(void *context, uint32_t node)
{
    struct cargo *of = context;
    assert_int_equal(node, 0);
    of->losses++;
}

static const struct remotes_ops hearing = {.word = on_word, .offered = on_offer, .lost = on_link_lost};

/* Agent 0 makes the link. */
static void connect_first(void)
{
    agents[0].link = remotes_connect(agents[0].remotes, &agents[1].identity, &agents[1].address);
    assert_non_null(agents[0].link);
    link_open(agents[0].link, &ops, &agents[0]);
}

static void send_number(struct agent *agent, uint64_t number, size_t bytes)
{
    uint8_t *message = calloc(1, bytes);
    memcpy(message, &number, sizeof number);
    agent->is_sending = true;
    link_send(agent->link, message, bytes);
    agent->is_sending = false;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

/* Run the loop until it is so; a test that waits too long has failed. */
#define WAIT_FOR(condition)                                                                                  \
    do {                                                                                                     \
        uv_timer_t timer;                                                                                    \
        uint64_t until = now_ms() + PATIENCE_MS;                                                             \
        uv_timer_init(&loop, &timer);                                                                        \
        uv_timer_start(&timer, on_tick, 50, 50);                                                             \
        while (!(condition) && now_ms() < until)                                                             \
            uv_run(&loop, UV_RUN_ONCE);                                                                      \
        uv_close((uv_handle_t *)&timer, NULL);                                                               \
        uv_run(&loop, UV_RUN_NOWAIT);                                                                        \
        assert_true(condition);                                                                              \
    } while (0)

/* Sent before the other agent is reached; more than the fabric holds; in both directions. */
static void messages_keep_their_order(void **state)
{
    (void)state;
    connect_first();
    for (unsigned i = 0; i < MESSAGES; i++)
        send_number(&agents[0], i, 8 + i % 9000);
    WAIT_FOR(agents[1].came == 1);
    for (unsigned i = 0; i < MESSAGES; i++)
        send_number(&agents[1], i, 8);
    WAIT_FOR(agents[0].received == MESSAGES && agents[1].received == MESSAGES);
    assert_true(agents[0].is_in_order && agents[1].is_in_order);
}

static void messages_wait_for_a_listener(void **state)
{
    (void)state;
    agents[1].stays_closed = true;
    connect_first();
    for (unsigned i = 0; i < 100; i++)
        send_number(&agents[0], i, 100);
    WAIT_FOR(agents[1].came == 1);
    for (unsigned i = 0; i < 20; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(agents[1].received, 0);
    link_open(agents[1].link, &ops, &agents[1]);
    assert_int_equal(agents[1].received, 0);
    send_number(&agents[0], 100, 100);
    WAIT_FOR(agents[1].received == 101);
    assert_true(agents[1].is_in_order);
}

/* It is told what was sent before, and then of the end, at once. */
static void end_is_heard(void **state)
{
    (void)state;
    connect_first();
    WAIT_FOR(agents[1].came == 1);
    uint64_t begun_ms = now_ms();
    for (unsigned i = 0; i < 100; i++)
        send_number(&agents[0], i, 50000);
    link_destroy(agents[0].link);
    agents[0].link = NULL;
    WAIT_FOR(agents[1].is_lost);
    assert_int_equal(agents[1].received, 100);
    assert_string_equal(agents[1].reason, "the other end has gone");
    assert_true(now_ms() - begun_ms < STALL_MS);
    send_number(&agents[1], 0, 8); /* nothing comes of that */
    link_destroy(agents[1].link);
    agents[1].link = NULL;
    connect_first(); /* the next link between both */
    WAIT_FOR(agents[1].came == 2);
    agents[1].is_lost = false;
    agents[1].received = 0;
    send_number(&agents[0], 0, 8);
    WAIT_FOR(agents[1].received == 1);
}

/* A message that could not be put together, and one that is too large: both ends hear that one is missing. */
static void missing_message_loses_the_link(void **state)
{
    (void)state;
    connect_first();
    WAIT_FOR(agents[1].came == 1);
    send_number(&agents[0], 0, 8);
    agents[0].is_sending = true;
    link_send(agents[0].link, NULL, 0);
    agents[0].is_sending = false;
    WAIT_FOR(agents[0].is_lost && agents[1].is_lost);
    assert_int_equal(agents[1].received, 1);
    link_destroy(agents[0].link);
    link_destroy(agents[1].link);
    agents[0].is_lost = agents[1].is_lost = false;
    agents[1].link = NULL;
    agents[1].received = 0;
    connect_first();
    WAIT_FOR(agents[1].came == 2);
    send_number(&agents[0], 0, REMOTE_MESSAGE_BYTES + 1);
    WAIT_FOR(agents[0].is_lost && agents[1].is_lost);
    assert_int_equal(agents[1].received, 0);
}

static void epoch_ends_links(void **state)
{
    (void)state;
    connect_first();
    WAIT_FOR(agents[1].came == 1);
    for (unsigned i = 0; i < 2; i++)
        remotes_enter_epoch(agents[i].remotes, &epoch_five);
    WAIT_FOR(agents[0].is_lost && agents[1].is_lost);
    link_destroy(agents[0].link);
    link_destroy(agents[1].link);
    agents[0].is_lost = agents[1].is_lost = false;
    agents[1].link = NULL;
    connect_first();
    send_number(&agents[0], 0, 8);
    WAIT_FOR(agents[1].received == 1);
}

static void link_may_be_destroyed_by_its_listener(void **state)
{
    (void)state;
    connect_first();
    WAIT_FOR(agents[1].came == 1);
    agents[1].destroys_at_once = true;
    for (unsigned i = 0; i < 10; i++)
        send_number(&agents[0], i, 8);
    WAIT_FOR(agents[0].is_lost);
    assert_int_equal(agents[1].received, 1);
}

static void data_go_beside_the_messages(void **state)
{
    (void)state;
    cargo = (struct cargo){.is_right = true};
    assert_int_equal(remotes_say(agents[0].remotes, REMOTES_IMAGES, 1, "held", 4), -1);
    remotes_hear(agents[1].remotes, REMOTES_IMAGES, &hearing, &cargo);
    connect_first();
    WAIT_FOR(agents[1].came == 1);
    send_number(&agents[0], 0, 8);
    assert_int_equal(
        remotes_push(agents[0].remotes, REMOTES_IMAGES, 1, "tag", 3, DATA_BYTES, give, on_given, &cargo), 0);
    assert_int_equal(remotes_say(agents[0].remotes, REMOTES_IMAGES, 1, "held", 4), 0);
    send_number(&agents[0], 1, 8);
    WAIT_FOR(cargo.pushed == 1 && cargo.pulled == 1 && cargo.words == 1 && agents[1].received == 2);
    assert_int_equal(cargo.push_error, 0);
    assert_int_equal(cargo.pull_error, 0);
    assert_int_equal(cargo.taken, DATA_BYTES);
    assert_true(cargo.is_right && agents[1].is_in_order);
}

static void refused_data_are_told_of(void **state)
{
    (void)state;
    cargo = (struct cargo){.refuse_with = ESTALE};
    connect_first();
    WAIT_FOR(agents[1].came == 1);
    assert_int_equal(
        remotes_push(agents[0].remotes, REMOTES_IMAGES, 1, "tag", 3, DATA_BYTES, give, on_given, &cargo), 0);
    WAIT_FOR(cargo.pushed == 1); /* nobody hears offers */
    assert_int_not_equal(cargo.push_error, 0);
    remotes_hear(agents[1].remotes, REMOTES_IMAGES, &hearing, &cargo);
    assert_int_equal(
        remotes_push(agents[0].remotes, REMOTES_IMAGES, 1, "tag", 3, DATA_BYTES, give, on_given, &cargo), 0);
    WAIT_FOR(cargo.pushed == 2);
    assert_int_equal(cargo.push_error, ESTALE);
    assert_int_equal(cargo.pulled, 0);
    assert_int_equal(cargo.taken, 0);
}

/* Whoever began them hears it once, on both sides. */
static void the_end_of_a_link_is_the_end_of_its_data(void **state)
{
    (void)state;
    cargo = (struct cargo){.is_right = true};
    remotes_hear(agents[1].remotes, REMOTES_IMAGES, &hearing, &cargo);
    connect_first();
    WAIT_FOR(agents[1].came == 1);
    assert_int_equal(
        remotes_push(agents[0].remotes, REMOTES_IMAGES, 1, "tag", 3, DATA_BYTES, give, on_given, &cargo), 0);
    remotes_enter_epoch(agents[1].remotes, &epoch_five);
    WAIT_FOR(cargo.losses == 1);
    remotes_enter_epoch(agents[0].remotes, &epoch_five);
    WAIT_FOR(cargo.pushed == 1 && agents[0].is_lost);
    assert_int_equal(cargo.losses, 1);
    assert_int_not_equal(cargo.push_error, 0);
}

/* The other agent enters the epoch late: what was sent is not lost, and news are told once. */
static void late_link_joins(void **state)
{
    (void)state;
    remotes_enter_epoch(agents[0].remotes, &epoch_five);
    connect_first();
    send_number(&agents[0], 0, 8);
    WAIT_FOR(agents[0].news[REMOTE_LATE] == 1);
    uint64_t until_ms = now_ms() + 3 * SHORT_STALL_MS;
    WAIT_FOR(now_ms() > until_ms);
    assert_false(agents[0].is_lost);
    assert_int_equal(agents[0].news[REMOTE_JOINED], 0);
    remotes_enter_epoch(agents[1].remotes, &epoch_five);
    WAIT_FOR(agents[0].news[REMOTE_JOINED] == 1 && agents[1].received == 1);
    assert_int_equal(agents[0].news[REMOTE_LATE], 1);
    assert_int_equal(agents[0].news[REMOTE_SILENT], 0);
}

/* The other agent has left the epoch without a word. */
static void silence_is_news_and_a_loss(void **state)
{
    (void)state;
    connect_first();
    send_number(&agents[0], 0, 8);
    WAIT_FOR(agents[1].received == 1);
    remotes_enter_epoch(agents[1].remotes, &epoch_five);
    WAIT_FOR(agents[0].is_lost);
    assert_int_equal(agents[0].news[REMOTE_SILENT], 1);
    assert_int_equal(agents[0].news[REMOTE_LATE], 0);
    assert_int_equal(agents[1].news[REMOTE_SILENT], 0); /* of a link that it has left itself */
}

/* Others have seen the end of the process at the other end: no stall time has to pass, joined or not. */
static void link_to_a_process_that_is_gone_is_lost(void **state)
{
    (void)state;
    remotes_enter_epoch(agents[0].remotes, &epoch_five); /* the other one has not entered it */
    connect_first();
    send_number(&agents[0], 0, 8);
    remotes_lose(agents[0].remotes, agents[1].identity.node + 1);
    remotes_lose(agents[0].remotes, agents[1].identity.node);
    remotes_lose(agents[0].remotes, agents[1].identity.node); /* there is no such link any more */
    assert_false(agents[0].is_lost);                          /* it is told from the loop */
    uint64_t until_ms = now_ms() + STALL_MS / 2;
    WAIT_FOR(agents[0].is_lost || now_ms() > until_ms);
    assert_true(agents[0].is_lost);
    assert_string_equal(agents[0].reason, "its agent is gone");
    assert_int_equal(agents[0].news[REMOTE_SILENT], 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(messages_keep_their_order),
        TEST(messages_wait_for_a_listener),
        TEST(end_is_heard),
        TEST(missing_message_loses_the_link),
        TEST(epoch_ends_links),
        TEST(link_may_be_destroyed_by_its_listener),
        TEST(data_go_beside_the_messages),
        TEST(refused_data_are_told_of),
        TEST(the_end_of_a_link_is_the_end_of_its_data),
        TEST(link_to_a_process_that_is_gone_is_lost),
        cmocka_unit_test_setup_teardown(late_link_joins, setup_patient, teardown),
        cmocka_unit_test_setup_teardown(silence_is_news_and_a_loss, setup_patient, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
