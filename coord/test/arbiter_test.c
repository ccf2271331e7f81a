/* arbiter_test.c - inquiry, leases, the choice of the line, placement; what is recorded before it is told. */
#include "coord/arbiter.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NODES 3u
#define RANKS 3u
#define LEASE_US 1000u
#define COLLECT_US 100u
#define REPEAT_US 10u

/* What the arbiter did, as text: "ASK 0/1 RECORD 1 line 0 START 0/1 ...". */
struct recorder {
    char text[4096];
    struct arbiter *arbiter;
    struct epoch_start *durable;
    uint64_t now_us;
    bool is_disk_full;
    uint32_t min_members, max_members;
};

static int record(void *context, const struct arbiter_action *action)
{
    struct recorder *recorder = context;
    size_t used = strlen(recorder->text);
    char *at = recorder->text + used;
    size_t room = sizeof(recorder->text) - used;
    const char *gap = used ? " " : "";

    if (action->type == ARBITER_ACTION_RECORD && recorder->is_disk_full) {
        errno = ENOSPC;
        return -1;
    }
    if (action->type == ARBITER_ACTION_RECORD) {
        snprintf(at, room, "%sRECORD %u line %lu of %u", gap, action->start->epoch,
                 (unsigned long)action->start->line, action->start->member_count);
        free(recorder->durable);
        recorder->durable = epoch_start_copy(action->start);
        assert_non_null(recorder->durable);
    } else {
        snprintf(at, room, "%s%s %u/%u", gap,
                 action->type == ARBITER_ACTION_ASK     ? "ASK"
                 : action->type == ARBITER_ACTION_GRANT ? "GRANT"
                                                        : "START",
                 action->node, action->epoch);
    }
    if (action->type == ARBITER_ACTION_START) /* nobody hears what is not on the disk */
        assert_int_equal(recorder->durable->epoch, action->epoch);
    return 0;
}

/* The actions since the last look. */
#define assert_said(recorder, expected)                                                                      \
    do {                                                                                                     \
        assert_string_equal((recorder)->text, expected);                                                     \
        (recorder)->text[0] = '\0';                                                                          \
    } while (0)

static int try_step(struct recorder *recorder, struct arbiter_event event)
{
    event.now_us = recorder->now_us;
    return arbiter_step(recorder->arbiter, &event);
}

static void step(struct recorder *recorder, struct arbiter_event event)
{
    assert_int_equal(try_step(recorder, event), 0);
}

static void tick_at(struct recorder *recorder, uint64_t now_us)
{
    recorder->now_us = now_us;
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_TICK});
}

static void begin(struct recorder *recorder, enum scheme scheme, uint64_t lease_us)
{
    const struct arbiter_settings settings = {.node_count = NODES,
                                              .rank_count = RANKS,
                                              .min_members = recorder->min_members,
                                              .max_members = recorder->max_members,
                                              .scheme = scheme,
                                              .lease_us = lease_us,
                                              .collect_us = COLLECT_US,
                                              .repeat_us = REPEAT_US};

    arbiter_destroy(recorder->arbiter);
    recorder->arbiter = arbiter_create(&settings, recorder->durable, record, recorder);
    assert_non_null(recorder->arbiter);
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_BEGIN});
}

/* A node's answer: incarnation 100 + node, room for all, nothing held if held is NULL. */
static struct arbiter_event state_of(uint32_t node, uint32_t epoch, const struct holding *held)
{
    return (struct arbiter_event){
        .type = ARBITER_EVENT_STATE,
        .node = node,
        .epoch = epoch,
        .state = {
            .incarnation = 100 + node, .room = EPOCH_NO_LIMIT, .held_count = held ? RANKS : 0, .held = held}};
}

/* Epoch 1 runs: rank i on member i. Clears the record. */
static void open_first(struct recorder *recorder, enum scheme scheme)
{
    begin(recorder, scheme, LEASE_US);
    for (uint32_t node = 0; node < NODES; node++)
        step(recorder, state_of(node, 1, NULL));
    assert_int_equal(arbiter_record(recorder->arbiter)->epoch, 1);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        recorder->durable->placement[rank] = rank;
    begin(recorder, scheme, LEASE_US); /* with that placement, and inquiring about epoch 2 */
    recorder->text[0] = '\0';
}

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct recorder));
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    struct recorder *recorder = *state;

    arbiter_destroy(recorder->arbiter);
    free(recorder->durable);
    free(recorder);
    return 0;
}

static void it_opens_the_first_epoch_with_all_who_answer(void **state)
{
    struct recorder *recorder = *state;

    begin(recorder, SCHEME_SINGLE, LEASE_US);
    assert_said(recorder, "ASK 0/1 ASK 1/1 ASK 2/1");
    step(recorder, state_of(0, 1, NULL));
    step(recorder, state_of(2, 1, NULL));
    assert_said(recorder, "");
    step(recorder, state_of(1, 1, NULL));
    assert_said(recorder, "RECORD 1 line 0 of 3 START 0/1 START 1/1 START 2/1");
    assert_false(arbiter_is_inquiring(recorder->arbiter));
}

static void it_waits_a_while_for_nodes_that_owe_no_answer(void **state)
{
    struct recorder *recorder = *state;

    begin(recorder, SCHEME_SINGLE, LEASE_US);
    step(recorder, state_of(1, 1, NULL));
    recorder->text[0] = '\0';
    tick_at(recorder, COLLECT_US - 1);
    assert_said(recorder, "ASK 0/1 ASK 2/1");
    tick_at(recorder, COLLECT_US + REPEAT_US);
    assert_said(recorder, "RECORD 1 line 0 of 1 START 1/1");
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(recorder->durable->placement[rank], 0);
}

static void what_cannot_be_recorded_is_told_to_nobody(void **state)
{
    struct recorder *recorder = *state;
    struct arbiter_event last = state_of(2, 1, NULL);

    begin(recorder, SCHEME_SINGLE, LEASE_US);
    step(recorder, state_of(0, 1, NULL));
    step(recorder, state_of(1, 1, NULL));
    recorder->text[0] = '\0';
    recorder->is_disk_full = true;
    assert_int_equal(try_step(recorder, last), -1);
    assert_int_equal(errno, ENOSPC);
    assert_said(recorder, "");
    assert_true(arbiter_is_inquiring(recorder->arbiter));
    recorder->is_disk_full = false;
    tick_at(recorder, REPEAT_US);
    assert_said(recorder, "RECORD 1 line 0 of 3 START 0/1 START 1/1 START 2/1");
}

static void a_member_that_does_not_answer_is_waited_for_until_its_lease_is_over(void **state)
{
    struct recorder *recorder = *state;

    open_first(recorder, SCHEME_SINGLE);
    step(recorder, state_of(0, 2, NULL));
    step(recorder, state_of(1, 2, NULL));
    tick_at(recorder, LEASE_US - 1); /* a new arbiter: its predecessor may have granted until it began */
    recorder->text[0] = '\0';
    assert_true(arbiter_is_inquiring(recorder->arbiter));
    tick_at(recorder, LEASE_US + REPEAT_US);
    assert_said(recorder, "RECORD 2 line 0 of 2 START 0/2 START 1/2");
}

static void leases_are_granted_to_members_of_the_epoch_with_their_memory(void **state)
{
    struct recorder *recorder = *state;
    struct arbiter_event renewal = {
        .type = ARBITER_EVENT_RENEW, .node = 1, .epoch = 1, .incarnation = 101, .asked_us = 7};

    begin(recorder, SCHEME_SINGLE, LEASE_US);
    for (uint32_t node = 0; node < NODES; node++)
        step(recorder, state_of(node, 1, NULL));
    recorder->text[0] = '\0';
    step(recorder, renewal);
    assert_said(recorder, "GRANT 1/1");
    renewal.incarnation = 999;
    step(recorder, renewal);
    renewal.incarnation = 101;
    renewal.epoch = 2;
    step(recorder, renewal);
    assert_said(recorder, "");
    renewal.epoch = 1;
    step(recorder,
         (struct arbiter_event){.type = ARBITER_EVENT_TROUBLE, .node = 0, .epoch = 1, .incarnation = 100});
    assert_said(recorder, "ASK 0/2 ASK 1/2 ASK 2/2");
    step(recorder, renewal); /* no lease is granted any more */
    assert_said(recorder, "");
}

static void a_lease_that_lapses_ends_the_epoch(void **state)
{
    struct recorder *recorder = *state;

    begin(recorder, SCHEME_SINGLE, LEASE_US);
    for (uint32_t node = 0; node < NODES; node++)
        step(recorder, state_of(node, 1, NULL));
    recorder->text[0] = '\0';
    assert_int_equal(arbiter_wake_us(recorder->arbiter), LEASE_US + 1);
    tick_at(recorder, LEASE_US);
    assert_said(recorder, "");
    tick_at(recorder, LEASE_US + 1);
    assert_said(recorder, "ASK 0/2 ASK 1/2 ASK 2/2");
}

static void trouble_of_another_life_or_epoch_is_no_news(void **state)
{
    struct recorder *recorder = *state;

    begin(recorder, SCHEME_SINGLE, LEASE_US);
    for (uint32_t node = 0; node < NODES; node++)
        step(recorder, state_of(node, 1, NULL));
    recorder->text[0] = '\0';
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_TROUBLE, .epoch = 1, .incarnation = 5});
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_LINK_LOST, .epoch = 0});
    assert_said(recorder, "");
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_LINK_LOST, .epoch = 1});
    assert_said(recorder, "ASK 0/2 ASK 1/2 ASK 2/2");
}

static void an_answer_is_forgotten_with_its_link(void **state)
{
    struct recorder *recorder = *state;

    begin(recorder, SCHEME_SINGLE, LEASE_US);
    step(recorder, state_of(0, 1, NULL));
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_LINK_LOST, .node = 0});
    step(recorder, state_of(1, 1, NULL));
    recorder->text[0] = '\0';
    step(recorder, state_of(2, 1, NULL));
    assert_said(recorder, "");
    step(recorder, state_of(0, 1, NULL));
    assert_said(recorder, "RECORD 1 line 0 of 3 START 0/1 START 1/1 START 2/1");
}

/* ---- the line ---- */

/* Every node has its own rank's image at a line, and its left neighbour's. */
static void hold(struct holding held[NODES][RANKS], uint64_t line)
{
    memset(held, 0, NODES * sizeof(*held));
    for (uint32_t node = 0; node < NODES; node++) {
        held[node][node].image_line = line;
        held[node][(node + NODES - 1) % NODES].image_line = line;
    }
}

static void stage(struct holding held[NODES][RANKS], uint64_t line)
{
    for (uint32_t node = 0; node < NODES; node++)
        for (uint32_t rank = 0; rank < RANKS; rank++)
            if (held[node][rank].image_line) {
                held[node][rank].base_line = held[node][rank].image_line;
                held[node][rank].staging_line = line;
            }
}

static struct arbiter_event committed(struct arbiter_event event, uint64_t line)
{
    event.state.committed_line = event.state.last_line = line;
    return event;
}

static struct arbiter_event protected(struct arbiter_event event, uint64_t line)
{
    event.state.protected_line = event.state.last_line = line;
    event.state.protected_epoch = 1;
    return event;
}

static void a_line_that_any_survivor_has_committed_is_committed(void **state)
{
    struct recorder *recorder = *state;
    struct holding held[NODES][RANKS];

    open_first(recorder, SCHEME_PARTNER);
    hold(held, 4);
    stage(held, 5);
    step(recorder, protected(committed(state_of(0, 2, held[0]), 4), 5));
    step(recorder, committed(state_of(1, 2, held[1]), 5));
    step(recorder, committed(state_of(2, 2, held[2]), 4));
    assert_said(recorder, "RECORD 2 line 5 of 3 START 0/2 START 1/2 START 2/2");
    assert_int_equal(recorder->durable->last_line, 5);
}

static void a_line_that_all_survivors_have_protected_is_rolled_forward_to(void **state)
{
    struct recorder *recorder = *state;
    struct holding held[NODES][RANKS];

    open_first(recorder, SCHEME_PARTNER);
    hold(held, 4);
    stage(held, 5);
    step(recorder, protected(committed(state_of(0, 2, held[0]), 4), 5));
    step(recorder, protected(committed(state_of(1, 2, held[1]), 4), 5));
    tick_at(recorder, LEASE_US + REPEAT_US);
    assert_said(recorder, "RECORD 2 line 5 of 2 START 0/2 START 1/2");
    assert_int_equal(recorder->durable->members[recorder->durable->placement[2]], 0);
}

static void one_survivor_that_has_not_protected_it_aborts_it(void **state)
{
    struct recorder *recorder = *state;
    struct holding held[NODES][RANKS];

    open_first(recorder, SCHEME_PARTNER);
    hold(held, 4);
    stage(held, 5);
    step(recorder, protected(committed(state_of(0, 2, held[0]), 4), 5));
    step(recorder, committed(state_of(1, 2, held[1]), 4));
    step(recorder, protected(committed(state_of(2, 2, held[2]), 4), 5));
    assert_said(recorder, "RECORD 2 line 4 of 3 START 0/2 START 1/2 START 2/2");
    assert_int_equal(recorder->durable->last_line, 5); /* its number is used up all the same */
}

/* Node 2 is lost. Its partner, node 0, would hold rank 2 at line 5 if node 2 had protected it. */
static void what_a_lost_member_cannot_have_protected_is_aborted(void **state)
{
    struct recorder *recorder = *state;
    struct holding held[NODES][RANKS];

    open_first(recorder, SCHEME_PARTNER);
    hold(held, 4);
    stage(held, 5);
    held[0][2].staging_line = 0;
    step(recorder, protected(committed(state_of(0, 2, held[0]), 4), 5));
    step(recorder, protected(committed(state_of(1, 2, held[1]), 4), 5));
    tick_at(recorder, LEASE_US + REPEAT_US);
    assert_said(recorder, "RECORD 2 line 4 of 2 START 0/2 START 1/2");
}

static void a_delta_without_its_base_is_not_held(void **state)
{
    struct recorder *recorder = *state;
    struct holding held[NODES][RANKS];

    open_first(recorder, SCHEME_SINGLE);
    hold(held, 4);
    stage(held, 5);
    for (uint32_t node = 0; node < NODES; node++)
        held[node][1].base_line = 3;
    for (uint32_t node = 0; node < NODES; node++)
        step(recorder, committed(state_of(node, 2, held[node]), 5));
    assert_said(recorder, "");
    assert_int_equal(arbiter_wants(recorder->arbiter), ARBITER_WANT_DATA);
    assert_true(arbiter_is_stuck(recorder->arbiter));
}

static void a_protection_of_an_earlier_epoch_does_not_count(void **state)
{
    struct recorder *recorder = *state;
    struct holding held[NODES][RANKS];

    open_first(recorder, SCHEME_SINGLE);
    hold(held, 4);
    stage(held, 5);
    for (uint32_t node = 0; node < NODES; node++) {
        struct arbiter_event event = protected(committed(state_of(node, 2, held[node]), 4), 5);

        event.state.protected_epoch = 0;
        step(recorder, event);
    }
    assert_said(recorder, "RECORD 2 line 4 of 3 START 0/2 START 1/2 START 2/2");
}

static void without_a_survivor_nothing_can_be_told(void **state)
{
    struct recorder *recorder = *state;

    open_first(recorder, SCHEME_PARTNER);
    for (uint32_t node = 0; node < NODES; node++) {
        struct arbiter_event event = state_of(node, 2, NULL);

        event.state.incarnation += 1000; /* it has come back with empty memory */
        step(recorder, event);
    }
    assert_said(recorder, "");
    assert_int_equal(arbiter_wants(recorder->arbiter), ARBITER_WANT_SURVIVOR);
    tick_at(recorder, REPEAT_US);
    assert_said(recorder, "ASK 0/2 ASK 1/2 ASK 2/2");
    step(recorder, state_of(1, 2, NULL));
    assert_said(recorder, "RECORD 2 line 0 of 3 START 0/2 START 1/2 START 2/2");
}

static void a_committed_line_is_never_gone_back_past(void **state)
{
    struct recorder *recorder = *state;
    struct holding held[NODES][RANKS];

    open_first(recorder, SCHEME_SINGLE);
    hold(held, 4);
    for (uint32_t node = 0; node < NODES; node++)
        step(recorder, committed(state_of(node, 2, held[node]), 4));
    recorder->text[0] = '\0';
    begin(recorder, SCHEME_SINGLE, LEASE_US); /* it reads line 4 from the record */
    recorder->text[0] = '\0';
    for (uint32_t node = 0; node < NODES; node++)
        step(recorder, state_of(node, 3, NULL)); /* they know of no line */
    assert_said(recorder, "");
    assert_int_equal(arbiter_wants(recorder->arbiter), ARBITER_WANT_DATA);
}

/* What could be gone on from is told apart from what is lost. */
static void no_epoch_is_opened_with_too_few_nodes(void **state)
{
    struct recorder *recorder = *state;
    struct holding held[NODES][RANKS];

    recorder->min_members = 2;
    open_first(recorder, SCHEME_PARTNER);
    hold(held, 4);
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_GONE, .node = 1});
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_GONE, .node = 2});
    held[0][1].image_line = 4;
    step(recorder, committed(state_of(0, 2, held[0]), 4));
    assert_said(recorder, "");
    assert_int_equal(arbiter_wants(recorder->arbiter), ARBITER_WANT_NODES);
    assert_true(arbiter_is_stuck(recorder->arbiter));
    held[0][1].image_line = 0;
    step(recorder, committed(state_of(0, 2, held[0]), 4));
    assert_int_equal(arbiter_wants(recorder->arbiter), ARBITER_WANT_DATA);
}

static void an_epoch_is_opened_with_just_enough_nodes(void **state)
{
    struct recorder *recorder = *state;
    struct holding held[NODES][RANKS];

    recorder->min_members = 2;
    open_first(recorder, SCHEME_PARTNER);
    hold(held, 4);
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_GONE, .node = 1});
    step(recorder, committed(state_of(0, 2, held[0]), 4));
    step(recorder, committed(state_of(2, 2, held[2]), 4));
    assert_said(recorder, "RECORD 2 line 4 of 2 START 0/2 START 2/2");
}

/* Ranks and copies of node 0 are for node 2, which was a spare: node 1 sends it the image. */
static void a_spare_takes_the_place_of_a_lost_member(void **state)
{
    struct recorder *recorder = *state;
    const struct holding held[RANKS] = {{.image_line = 4}, {.image_line = 4}, {.image_line = 4}};
    const uint32_t placement[RANKS] = {0, 1, 0};

    recorder->max_members = 2;
    begin(recorder, SCHEME_PARTNER, LEASE_US);
    for (uint32_t node = 0; node < NODES; node++)
        step(recorder, state_of(node, 1, NULL));
    assert_said(recorder, "ASK 0/1 ASK 1/1 ASK 2/1 RECORD 1 line 0 of 2 START 0/1 START 1/1");
    memcpy(recorder->durable->placement, placement, sizeof(placement));
    begin(recorder, SCHEME_PARTNER, LEASE_US);
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_GONE, .node = 0});
    step(recorder, committed(state_of(1, 2, held), 4));
    recorder->text[0] = '\0';
    step(recorder, state_of(2, 2, NULL));
    assert_said(recorder, "RECORD 2 line 4 of 2 START 2/2 START 1/2");
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(recorder->durable->placement[rank], placement[rank]);
        assert_int_equal(recorder->durable->holder[rank], 1);
    }
}

/* It is a member beyond what was wanted. */
static void a_spare_that_alone_has_an_image_is_a_member(void **state)
{
    struct recorder *recorder = *state;
    struct holding held[NODES][RANKS] = {0};

    open_first(recorder, SCHEME_SINGLE);
    recorder->max_members = 1;
    begin(recorder, SCHEME_SINGLE, LEASE_US);
    recorder->text[0] = '\0';
    held[0][0].image_line = held[0][1].image_line = held[1][1].image_line = held[2][2].image_line = 4;
    for (uint32_t node = 0; node < NODES; node++)
        step(recorder, committed(state_of(node, 2, held[node]), 4));
    assert_said(recorder, "RECORD 2 line 4 of 2 START 0/2 START 2/2");
}

/* Nodes 0 and 1 are in one rack: each is followed by the one in the other rack, if there is one. */
static void members_of_a_failure_domain_do_not_hold_copies_for_one_another(void **state)
{
    struct recorder *recorder = *state;
    static const uint32_t domains[] = {1, 1, 2, 2};
    const struct arbiter_settings settings = {
        .node_count = 4, .scheme = SCHEME_PARTNER, .collect_us = COLLECT_US, .domains = domains};

    recorder->arbiter = arbiter_create(&settings, NULL, record, recorder);
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_BEGIN});
    recorder->text[0] = '\0';
    for (uint32_t node = 0; node < 4; node++)
        step(recorder, state_of(node, 1, NULL));
    assert_said(recorder, "RECORD 1 line 0 of 4 START 0/1 START 2/1 START 1/1 START 3/1");
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_GONE, .node = 2});
    recorder->text[0] = '\0';
    step(recorder, state_of(0, 2, NULL));
    step(recorder, state_of(1, 2, NULL));
    step(recorder, state_of(3, 2, NULL));
    assert_said(recorder, "RECORD 2 line 0 of 3 START 0/2 START 1/2 START 3/2"); /* it cannot be */
}

/* ---- placement ---- */

static void a_rank_stays_where_its_image_is_if_there_is_room(void **state)
{
    struct recorder *recorder = *state;
    struct holding held[NODES][RANKS] = {0};
    struct arbiter_event event;

    open_first(recorder, SCHEME_SINGLE);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        held[1][rank].image_line = 4;
    step(recorder, committed(state_of(0, 2, held[0]), 4));
    event = committed(state_of(1, 2, held[1]), 4);
    event.state.room = 1;
    step(recorder, event);
    event = committed(state_of(2, 2, held[2]), 4);
    event.state.room = 0;
    step(recorder, event);
    assert_said(recorder, "RECORD 2 line 4 of 3 START 0/2 START 1/2 START 2/2");
    assert_int_equal(recorder->durable->placement[0], 0);
    assert_int_equal(recorder->durable->placement[1], 1);
    assert_int_equal(recorder->durable->placement[2], 0);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(recorder->durable->holder[rank], 1);
}

static void of_two_holders_the_rank_stays_at_home(void **state)
{
    struct recorder *recorder = *state;
    struct holding held[RANKS];

    open_first(recorder, SCHEME_PARTNER);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        held[rank] = (struct holding){.image_line = 4};
    for (uint32_t node = 0; node < NODES; node++)
        step(recorder, committed(state_of(node, 2, held), 4));
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(recorder->durable->placement[rank], rank);
        assert_int_equal(recorder->durable->holder[rank], rank);
    }
}

/* No lease has to run out, and nobody asks it again. Its ranks go to its partner. */
static void a_node_that_is_gone_is_not_waited_for(void **state)
{
    struct recorder *recorder = *state;
    struct holding held[NODES][RANKS] = {0};

    open_first(recorder, SCHEME_PARTNER);
    held[0][0].image_line = held[0][2].image_line = 4;
    held[2][2].image_line = held[2][1].image_line = 4;
    step(recorder, committed(state_of(0, 2, held[0]), 4));
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_GONE, .node = 1});
    assert_said(recorder, "");
    tick_at(recorder, REPEAT_US);
    assert_said(recorder, "ASK 2/2");
    step(recorder, state_of(1, 2, held[0])); /* it was on its way */
    step(recorder, committed(state_of(2, 2, held[2]), 4));
    assert_said(recorder, "RECORD 2 line 4 of 2 START 0/2 START 2/2");
    assert_int_equal(recorder->durable->members[recorder->durable->placement[0]], 0);
    assert_int_equal(recorder->durable->members[recorder->durable->placement[1]], 2);
    assert_int_equal(recorder->durable->members[recorder->durable->placement[2]], 2);
}

static void what_a_gone_node_held_alone_is_lost(void **state)
{
    struct recorder *recorder = *state;
    struct holding held[RANKS] = {{.image_line = 4}, {0}, {.image_line = 4}};

    open_first(recorder, SCHEME_SINGLE);
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_GONE, .node = 1});
    step(recorder, committed(state_of(0, 2, held), 4));
    step(recorder, committed(state_of(2, 2, held), 4));
    assert_said(recorder, "");
    assert_int_equal(arbiter_wants(recorder->arbiter), ARBITER_WANT_DATA);
    assert_true(arbiter_is_stuck(recorder->arbiter));
}

static void nodes_are_asked_again_until_there_is_room(void **state)
{
    struct recorder *recorder = *state;
    struct arbiter_event event;

    begin(recorder, SCHEME_SINGLE, LEASE_US);
    for (uint32_t node = 0; node < NODES; node++) {
        event = state_of(node, 1, NULL);
        event.state.room = node == 0 ? RANKS - 1 : 0;
        step(recorder, event);
    }
    recorder->text[0] = '\0';
    assert_int_equal(arbiter_wants(recorder->arbiter), ARBITER_WANT_ROOM);
    assert_false(arbiter_is_stuck(recorder->arbiter));
    tick_at(recorder, REPEAT_US);
    assert_said(recorder, "ASK 0/1 ASK 1/1 ASK 2/1");
    event.state.room = 1;
    step(recorder, event);
    assert_said(recorder, "RECORD 1 line 0 of 3 START 0/1 START 1/1 START 2/1");
}

static void ranks_may_come_up_where_nobody_has_placed_them(void **state)
{
    struct recorder *recorder = *state;
    const struct arbiter_settings settings = {.node_count = 1, .repeat_us = REPEAT_US};
    const uint32_t placement[] = {0, 0}, wrong[] = {0, 1};
    struct arbiter_event placed = {
        .type = ARBITER_EVENT_PLACED, .epoch = 1, .rank_count = 2, .placement = wrong};

    recorder->arbiter = arbiter_create(&settings, NULL, record, recorder);
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_BEGIN});
    step(recorder, state_of(0, 1, NULL));
    assert_said(recorder, "ASK 0/1 RECORD 1 line 0 of 1 START 0/1");
    assert_int_equal(arbiter_wake_us(recorder->arbiter), UINT64_MAX); /* no lease is needed */
    assert_int_equal(try_step(recorder, placed), -1);
    assert_int_equal(errno, EINVAL);
    placed.placement = placement;
    step(recorder, placed);
    assert_said(recorder, "RECORD 1 line 0 of 1");
    assert_int_equal(recorder->durable->rank_count, 2);
    step(recorder, placed);
    assert_said(recorder, "");
}

static void a_number_out_of_range_is_refused(void **state)
{
    struct recorder *recorder = *state;
    const struct arbiter_settings none = {0}, some = {.node_count = NODES};

    begin(recorder, SCHEME_SINGLE, LEASE_US);
    assert_int_equal(try_step(recorder, state_of(NODES, 1, NULL)), -1);
    assert_int_equal(errno, EINVAL);
    assert_null(arbiter_create(&none, NULL, record, recorder));
    for (uint32_t node = 0; node < NODES; node++)
        step(recorder, state_of(node, 1, NULL));
    recorder->durable->holder[1] = NODES; /* a damaged record */
    assert_null(arbiter_create(&some, recorder->durable, record, recorder));
    assert_int_equal(errno, EINVAL);
    recorder->durable->holder[1] = 0;
    recorder->durable->members[2] = NODES;
    assert_null(arbiter_create(&some, recorder->durable, record, recorder));
    arbiter_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_opens_the_first_epoch_with_all_who_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(it_waits_a_while_for_nodes_that_owe_no_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_recorded_is_told_to_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(a_member_that_does_not_answer_is_waited_for_until_its_lease_is_over,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(leases_are_granted_to_members_of_the_epoch_with_their_memory, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_lease_that_lapses_ends_the_epoch, setup, teardown),
        cmocka_unit_test_setup_teardown(trouble_of_another_life_or_epoch_is_no_news, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_is_forgotten_with_its_link, setup, teardown),
        cmocka_unit_test_setup_teardown(a_line_that_any_survivor_has_committed_is_committed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_line_that_all_survivors_have_protected_is_rolled_forward_to, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(one_survivor_that_has_not_protected_it_aborts_it, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_lost_member_cannot_have_protected_is_aborted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_delta_without_its_base_is_not_held, setup, teardown),
        cmocka_unit_test_setup_teardown(a_protection_of_an_earlier_epoch_does_not_count, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_survivor_nothing_can_be_told, setup, teardown),
        cmocka_unit_test_setup_teardown(a_committed_line_is_never_gone_back_past, setup, teardown),
        cmocka_unit_test_setup_teardown(no_epoch_is_opened_with_too_few_nodes, setup, teardown),
        cmocka_unit_test_setup_teardown(an_epoch_is_opened_with_just_enough_nodes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_spare_takes_the_place_of_a_lost_member, setup, teardown),
        cmocka_unit_test_setup_teardown(a_spare_that_alone_has_an_image_is_a_member, setup, teardown),
        cmocka_unit_test_setup_teardown(members_of_a_failure_domain_do_not_hold_copies_for_one_another, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_rank_stays_where_its_image_is_if_there_is_room, setup, teardown),
        cmocka_unit_test_setup_teardown(of_two_holders_the_rank_stays_at_home, setup, teardown),
        cmocka_unit_test_setup_teardown(a_node_that_is_gone_is_not_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_gone_node_held_alone_is_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(nodes_are_asked_again_until_there_is_room, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_may_come_up_where_nobody_has_placed_them, setup, teardown),
        cmocka_unit_test_setup_teardown(a_number_out_of_range_is_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
