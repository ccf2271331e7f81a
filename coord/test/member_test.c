/* member_test.c - promise, start, lease, images, and the records of a line; what is done before what. */
#include "coord/member.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NODE 1u
#define INCARNATION 77u
#define LEASE_US 1000u
#define GUARD_US 100u
#define REPEAT_US 250u
#define RANKS 3u

/* What the member did, as text: "STOP RECORD ANSWER 2 ...". */
struct recorder {
    char text[4096];
    struct member *member;
    struct member_record durable;
    uint64_t now_us;
    bool is_keeper_gone; /* RECORD fails */
    bool is_full;        /* ADMIT fails */
};

static const char *const names[] = {
    [MEMBER_ACTION_RECORD] = "RECORD",
    [MEMBER_ACTION_STOP] = "STOP",
    [MEMBER_ACTION_APPLY] = "APPLY",
    [MEMBER_ACTION_SETTLE] = "SETTLE",
    [MEMBER_ACTION_ANSWER] = "ANSWER",
    [MEMBER_ACTION_RENEW] = "RENEW",
    [MEMBER_ACTION_TROUBLE] = "TROUBLE",
    [MEMBER_ACTION_ENTER] = "ENTER",
    [MEMBER_ACTION_COORDINATE] = "COORDINATE",
    [MEMBER_ACTION_FENCE] = "FENCE",
    [MEMBER_ACTION_FETCH] = "FETCH",
    [MEMBER_ACTION_SEND_IMAGE] = "SEND_IMAGE",
    [MEMBER_ACTION_LAUNCH] = "LAUNCH",
    [MEMBER_ACTION_READY] = "READY",
    [MEMBER_ACTION_OBEY] = "OBEY",
    [MEMBER_ACTION_SAY] = "SAY",
    [MEMBER_ACTION_PROTECT] = "PROTECT",
    [MEMBER_ACTION_ADMIT] = "ADMIT",
    [MEMBER_ACTION_HELD] = "HELD",
    [MEMBER_ACTION_NEED_BASE] = "NEED_BASE",
};

static const char *word_of(enum coord_event_type word)
{
    return word == COORD_EVENT_CAPTURED    ? "CAPTURED"
           : word == COORD_EVENT_PROTECTED ? "PROTECTED"
           : word == COORD_EVENT_COMMITTED ? "COMMITTED"
           : word == COORD_EVENT_ABORT     ? "ABORT"
           : word == COORD_EVENT_LOST      ? "LOST"
                                           : "?";
}

static int record(void *context, const struct member_action *action)
{
    struct recorder *recorder = context;
    size_t used = strlen(recorder->text), room = sizeof(recorder->text) - used;
    char *at = recorder->text + used;
    const char *gap = used ? " " : "";

    if ((action->type == MEMBER_ACTION_RECORD && recorder->is_keeper_gone) ||
        (action->type == MEMBER_ACTION_ADMIT && recorder->is_full)) {
        errno = ENOSPC;
        return -1;
    }
    switch (action->type) {
    case MEMBER_ACTION_RECORD:
        recorder->durable = *action->record;
        snprintf(at, room, "%sRECORD", gap);
        break;
    case MEMBER_ACTION_APPLY:
    case MEMBER_ACTION_SETTLE:
    case MEMBER_ACTION_LAUNCH:
        snprintf(at, room, "%s%s %lu", gap, names[action->type], (unsigned long)action->line);
        break;
    case MEMBER_ACTION_ANSWER:
        snprintf(at, room, "%sANSWER %u", gap, action->epoch);
        break;
    case MEMBER_ACTION_FENCE:
        snprintf(at, room, "%sFENCE %lu", gap, (unsigned long)action->until_us);
        break;
    case MEMBER_ACTION_FETCH:
    case MEMBER_ACTION_SEND_IMAGE:
    case MEMBER_ACTION_HELD:
    case MEMBER_ACTION_NEED_BASE:
        snprintf(at, room, "%s%s %u of node %u", gap, names[action->type], action->rank, action->peer);
        break;
    case MEMBER_ACTION_PROTECT:
        snprintf(at, room, "%sPROTECT %u at %u%s", gap, action->rank, action->peer,
                 action->is_whole ? " whole" : "");
        break;
    case MEMBER_ACTION_OBEY:
        snprintf(at, room, "%sOBEY %d", gap, action->order);
        break;
    case MEMBER_ACTION_SAY:
        snprintf(at, room, "%sSAY %s", gap, word_of(action->word));
        break;
    default:
        snprintf(at, room, "%s%s", gap, names[action->type]);
        break;
    }
    return 0;
}

/* The actions since the last look. */
#define assert_said(recorder, expected)                                                                      \
    do {                                                                                                     \
        assert_string_equal((recorder)->text, expected);                                                     \
        (recorder)->text[0] = '\0';                                                                          \
    } while (0)

static int try_step(struct recorder *recorder, struct member_event event)
{
    event.now_us = recorder->now_us;
    return member_step(recorder->member, &event);
}

static void step(struct recorder *recorder, struct member_event event)
{
    assert_int_equal(try_step(recorder, event), 0);
}

static void tick_at(struct recorder *recorder, uint64_t now_us)
{
    recorder->now_us = now_us;
    step(recorder, (struct member_event){.type = MEMBER_EVENT_TICK});
}

/* Another life of the agent, with what the keeper has. */
static void begin(struct recorder *recorder)
{
    const struct member_settings settings = {.node = NODE,
                                             .scheme = SCHEME_PARTNER,
                                             .lease_us = LEASE_US,
                                             .guard_us = GUARD_US,
                                             .repeat_us = REPEAT_US};

    member_destroy(recorder->member);
    recorder->member = member_create(&settings, &recorder->durable, record, recorder);
    assert_non_null(recorder->member);
    step(recorder, (struct member_event){.type = MEMBER_EVENT_BEGIN});
}

static void inquire(struct recorder *recorder, uint32_t epoch)
{
    step(recorder,
         (struct member_event){.type = MEMBER_EVENT_INQUIRE, .epoch = epoch, .room = EPOCH_NO_LIMIT});
}

/* Members are nodes 0, 1 and 2; ranks 0 and 1 are ours, whose images `held` has; rank 2 is node 2's. */
static void start(struct recorder *recorder, uint32_t epoch, uint64_t line, const struct holding *held)
{
    uint32_t members[] = {0, 1, 2}, placement[] = {1, 1, 2}, holder[] = {1, 0, 2};
    uint64_t incarnations[] = {7, INCARNATION, 9};
    const struct epoch_start opened = {.epoch = epoch,
                                       .line = line,
                                       .last_line = line + 2,
                                       .member_count = 3,
                                       .rank_count = RANKS,
                                       .coordinator = 0,
                                       .members = members,
                                       .incarnations = incarnations,
                                       .placement = placement,
                                       .holder = holder};

    step(recorder,
         (struct member_event){
             .type = MEMBER_EVENT_START, .start = &opened, .held_count = held ? RANKS : 0, .held = held});
}

static void grant(struct recorder *recorder, uint32_t epoch, uint64_t asked_us)
{
    step(recorder, (struct member_event){.type = MEMBER_EVENT_GRANT, .epoch = epoch, .asked_us = asked_us});
}

/* Epoch 1 runs from the start. Clears the record. */
static void run_first(struct recorder *recorder)
{
    begin(recorder);
    inquire(recorder, 1);
    start(recorder, 1, 0, NULL);
    grant(recorder, 1, 0);
    recorder->text[0] = '\0';
}

static void order(struct recorder *recorder, enum coord_action_type type, uint64_t line)
{
    step(recorder,
         (struct member_event){.type = MEMBER_EVENT_ORDER, .epoch = 1, .line = line, .order = type});
}

static void of_rank(struct recorder *recorder, enum member_event_type type, uint64_t line, uint32_t rank)
{
    step(recorder, (struct member_event){.type = type, .epoch = 1, .line = line, .rank = rank});
}

/* A line up to an order, whose actions are cleared. */
static void lead_to(struct recorder *recorder, enum coord_action_type last, uint64_t line)
{
    order(recorder, COORD_ACTION_STROBE, line);
    order(recorder, COORD_ACTION_TARGETS, line);
    order(recorder, COORD_ACTION_STOP, line);
    if (last >= COORD_ACTION_CAPTURE)
        order(recorder, COORD_ACTION_CAPTURE, line);
    if (last >= COORD_ACTION_PROTECT) {
        of_rank(recorder, MEMBER_EVENT_CAPTURED, line, 0);
        of_rank(recorder, MEMBER_EVENT_CAPTURED, line, 1);
        order(recorder, COORD_ACTION_PROTECT, line);
    }
    if (last >= COORD_ACTION_COMMIT) {
        of_rank(recorder, MEMBER_EVENT_HELD, line, 0);
        of_rank(recorder, MEMBER_EVENT_HELD, line, 1);
        order(recorder, COORD_ACTION_COMMIT, line);
    }
    recorder->text[0] = '\0';
}

static int setup(void **state)
{
    struct recorder *recorder = calloc(1, sizeof(*recorder));

    if (!recorder)
        return -1;
    recorder->durable.incarnation = INCARNATION;
    *state = recorder;
    return 0;
}

static int teardown(void **state)
{
    struct recorder *recorder = *state;

    member_destroy(recorder->member);
    free(recorder);
    return 0;
}

static void another_life_stops_what_the_last_one_left_and_finishes_its_commit(void **state)
{
    struct recorder *recorder = *state;

    begin(recorder);
    assert_said(recorder, "STOP");
    recorder->durable.committed_line = 6;
    begin(recorder);
    assert_said(recorder, "STOP APPLY 6");
    assert_int_equal(member_epoch(recorder->member), 0);
    assert_int_equal(member_wake_us(recorder->member), UINT64_MAX);
}

static void a_promise_is_recorded_when_the_ranks_are_stopped(void **state)
{
    struct recorder *recorder = *state;

    run_first(recorder);
    inquire(recorder, 2);
    assert_said(recorder, "STOP RECORD ANSWER 2");
    assert_int_equal(recorder->durable.promised, 2);
    assert_int_equal(member_epoch(recorder->member), 0);
    order(recorder, COORD_ACTION_STROBE, 1); /* the old coordinator */
    grant(recorder, 1, 0);                   /* and the old lease */
    tick_at(recorder, REPEAT_US);
    assert_said(recorder, "");
    inquire(recorder, 2); /* the answer was lost */
    assert_said(recorder, "STOP ANSWER 2");
}

static void what_is_not_recorded_is_not_promised(void **state)
{
    struct recorder *recorder = *state;

    begin(recorder);
    recorder->text[0] = '\0';
    recorder->is_keeper_gone = true;
    assert_int_equal(try_step(recorder, (struct member_event){.type = MEMBER_EVENT_INQUIRE, .epoch = 1}), -1);
    assert_int_equal(errno, ENOSPC);
    assert_said(recorder, "STOP");
    assert_int_equal(member_record(recorder->member)->promised, 0);
}

static void an_older_arbiter_is_not_answered(void **state)
{
    struct recorder *recorder = *state;

    run_first(recorder);
    inquire(recorder, 1); /* doubled: this epoch runs */
    assert_said(recorder, "");
    inquire(recorder, 3);
    recorder->text[0] = '\0';
    inquire(recorder, 2);
    assert_said(recorder, "");
}

static void only_what_was_promised_is_entered_and_once(void **state)
{
    struct recorder *recorder = *state;

    begin(recorder);
    recorder->text[0] = '\0';
    start(recorder, 1, 0, NULL);
    assert_said(recorder, "");
    inquire(recorder, 2);
    recorder->text[0] = '\0';
    start(recorder, 1, 0, NULL);
    assert_said(recorder, "");
    start(recorder, 2, 0, NULL);
    assert_said(recorder, "STOP RECORD ENTER SETTLE 0 RENEW");
    start(recorder, 2, 0, NULL);
    assert_said(recorder, "");
    begin(recorder); /* the agent has crashed: it joins the next epoch only */
    recorder->text[0] = '\0';
    start(recorder, 2, 0, NULL);
    inquire(recorder, 2);
    assert_said(recorder, "");
}

/* The node has come back with empty memory, has promised, and an old message reaches it. */
static void an_epoch_of_another_memory_is_not_entered(void **state)
{
    struct recorder *recorder = *state;

    recorder->durable.incarnation = 1234;
    begin(recorder);
    inquire(recorder, 1);
    recorder->text[0] = '\0';
    start(recorder, 1, 0, NULL);
    assert_said(recorder, "");
}

static void ranks_run_with_a_lease_and_a_fence(void **state)
{
    struct recorder *recorder = *state;

    begin(recorder);
    inquire(recorder, 1);
    start(recorder, 1, 0, NULL);
    recorder->text[0] = '\0';
    recorder->now_us = 50;
    grant(recorder, 1, 10);
    assert_said(recorder, "FENCE 910 LAUNCH 0 READY");
    assert_int_equal(member_wake_us(recorder->member), REPEAT_US);
    tick_at(recorder, REPEAT_US);
    assert_said(recorder, "RENEW READY");
    grant(recorder, 1, 5); /* late: an earlier question */
    assert_said(recorder, "");
    grant(recorder, 1, REPEAT_US);
    assert_said(recorder, "FENCE 1150");
}

static void a_lease_that_comes_too_late_is_none(void **state)
{
    struct recorder *recorder = *state;

    begin(recorder);
    inquire(recorder, 1);
    start(recorder, 1, 0, NULL);
    recorder->text[0] = '\0';
    recorder->now_us = LEASE_US - GUARD_US;
    grant(recorder, 1, 0);
    assert_said(recorder, "");
}

static void ranks_are_stopped_before_the_lease_ends(void **state)
{
    struct recorder *recorder = *state;

    run_first(recorder);
    for (uint64_t now_us = REPEAT_US; now_us < LEASE_US - GUARD_US; now_us += REPEAT_US)
        tick_at(recorder, now_us);
    recorder->text[0] = '\0';
    assert_int_equal(member_wake_us(recorder->member), LEASE_US - GUARD_US);
    tick_at(recorder, LEASE_US - GUARD_US);
    assert_said(recorder, "STOP");
    assert_int_equal(member_epoch(recorder->member), 0);
}

static void the_verdict_is_recorded_before_it_is_carried_out(void **state)
{
    struct recorder *recorder = *state;
    const struct holding held[RANKS] = {{.image_line = 5}, {.image_line = 5}};

    begin(recorder);
    inquire(recorder, 1);
    recorder->text[0] = '\0';
    start(recorder, 1, 5, held);
    assert_said(recorder, "STOP RECORD ENTER SETTLE 5 RENEW");
    assert_int_equal(recorder->durable.committed_line, 5);
    assert_int_equal(recorder->durable.entered, 1);
    grant(recorder, 1, 0);
    assert_said(recorder, "FENCE 900 LAUNCH 5 READY");
}

/* Rank 0 is staged here; rank 1's image is at node 0. */
static void missing_images_are_asked_for_until_they_come(void **state)
{
    struct recorder *recorder = *state;
    const struct holding held[RANKS] = {{.image_line = 4, .staging_line = 5, .base_line = 4},
                                        {.image_line = 4}};

    begin(recorder);
    inquire(recorder, 1);
    start(recorder, 1, 5, held);
    grant(recorder, 1, 0);
    assert_said(recorder,
                "STOP STOP RECORD ANSWER 1 STOP RECORD ENTER SETTLE 5 RENEW FETCH 1 of node 0 FENCE 900");
    tick_at(recorder, REPEAT_US);
    assert_said(recorder, "RENEW FETCH 1 of node 0");
    of_rank(recorder, MEMBER_EVENT_IMAGE, 4, 1); /* another line's */
    of_rank(recorder, MEMBER_EVENT_IMAGE, 5, 2); /* not ours */
    assert_said(recorder, "");
    of_rank(recorder, MEMBER_EVENT_IMAGE, 5, 1);
    assert_said(recorder, "LAUNCH 5 READY");
    of_rank(recorder, MEMBER_EVENT_IMAGE, 5, 1);
    assert_said(recorder, "");
}

static void who_should_have_an_image_and_has_not_reports_trouble(void **state)
{
    struct recorder *recorder = *state;
    const struct holding held[RANKS] = {{.image_line = 4}, {.image_line = 5}};
    struct member_event fetch = {
        .type = MEMBER_EVENT_FETCH, .epoch = 1, .peer = 2, .rank = 1, .line = 5, .image_line = 5};

    begin(recorder);
    inquire(recorder, 1);
    recorder->text[0] = '\0';
    start(recorder, 1, 5, held);
    assert_said(recorder, "STOP RECORD ENTER SETTLE 5 RENEW TROUBLE");
    step(recorder, fetch);
    assert_said(recorder, "SEND_IMAGE 1 of node 2");
    fetch.image_line = 4;
    step(recorder, fetch);
    assert_said(recorder, "TROUBLE");
    tick_at(recorder, REPEAT_US); /* until another epoch comes */
    assert_said(recorder, "RENEW TROUBLE");
}

static void losses_are_told_to_arbiter_and_coordinator(void **state)
{
    struct recorder *recorder = *state;

    run_first(recorder);
    step(recorder, (struct member_event){.type = MEMBER_EVENT_LINK_LOST, .epoch = 1, .peer = 6});
    step(recorder, (struct member_event){.type = MEMBER_EVENT_LINK_LOST, .epoch = 0, .peer = 2});
    assert_said(recorder, "");
    step(recorder, (struct member_event){.type = MEMBER_EVENT_LINK_LOST, .epoch = 1, .peer = 2});
    assert_said(recorder, "TROUBLE SAY LOST");
    step(recorder, (struct member_event){.type = MEMBER_EVENT_RANK_LOST, .epoch = 1});
    assert_said(recorder, "TROUBLE SAY LOST");
}

static void a_damaged_message_is_refused(void **state)
{
    struct recorder *recorder = *state;
    uint32_t members[] = {1}, placement[] = {0}, holder[] = {1};
    uint64_t incarnations[] = {INCARNATION};
    struct epoch_start opened = {.epoch = 1,
                                 .line = 5,
                                 .member_count = 1,
                                 .rank_count = 1,
                                 .members = members,
                                 .incarnations = incarnations,
                                 .placement = placement,
                                 .holder = holder};
    const struct member_event event = {.type = MEMBER_EVENT_START, .start = &opened};

    begin(recorder);
    inquire(recorder, 1);
    recorder->text[0] = '\0';
    assert_int_equal(try_step(recorder, event), -1);
    assert_int_equal(errno, EINVAL);
    holder[0] = 0;
    placement[0] = 1;
    assert_int_equal(try_step(recorder, event), -1);
    placement[0] = 0;
    opened.coordinator = 1;
    assert_int_equal(try_step(recorder, event), -1);
    assert_said(recorder, "");
    opened.coordinator = 0;
    step(recorder, event);
    assert_int_equal(
        try_step(recorder, (struct member_event){.type = MEMBER_EVENT_FETCH, .epoch = 1, .rank = 1}), -1);
    assert_int_equal(
        try_step(recorder, (struct member_event){.type = MEMBER_EVENT_DATA, .epoch = 1, .rank = 1}), -1);
}

/* ---- a line ---- */

static void a_line_leaves_its_records_in_their_order(void **state)
{
    struct recorder *recorder = *state;

    run_first(recorder);
    recorder->durable.protected_line = 0;
    order(recorder, COORD_ACTION_STROBE, 3);
    assert_said(recorder, "RECORD OBEY 1");
    assert_int_equal(recorder->durable.last_line, 3);
    order(recorder, COORD_ACTION_TARGETS, 3);
    order(recorder, COORD_ACTION_TARGETS, 3);
    order(recorder, COORD_ACTION_STOP, 3);
    order(recorder, COORD_ACTION_CAPTURE, 3);
    assert_said(recorder, "OBEY 2 OBEY 2 OBEY 3 OBEY 4");
    of_rank(recorder, MEMBER_EVENT_CAPTURED, 3, 1);
    of_rank(recorder, MEMBER_EVENT_CAPTURED, 3, 1);
    assert_said(recorder, "");
    of_rank(recorder, MEMBER_EVENT_CAPTURED, 3, 0);
    assert_said(recorder, "SAY CAPTURED");
    order(recorder, COORD_ACTION_PROTECT, 3);
    assert_said(recorder, "PROTECT 0 at 2 PROTECT 1 at 2");
    of_rank(recorder, MEMBER_EVENT_HELD, 3, 0);
    of_rank(recorder, MEMBER_EVENT_NEED_BASE, 3, 0); /* settled meanwhile */
    of_rank(recorder, MEMBER_EVENT_NEED_BASE, 3, 1);
    assert_said(recorder, "PROTECT 1 at 2 whole");
    of_rank(recorder, MEMBER_EVENT_HELD, 3, 1);
    assert_said(recorder, "RECORD SAY PROTECTED");
    assert_int_equal(recorder->durable.protected_line, 3);
    assert_int_equal(recorder->durable.protected_epoch, 1);
    order(recorder, COORD_ACTION_COMMIT, 3);
    assert_said(recorder, "RECORD OBEY 6");
    assert_int_equal(recorder->durable.committed_line, 3);
    order(recorder, COORD_ACTION_ABORT, 3); /* a line in COMMIT does not abort */
    assert_said(recorder, "");
    step(recorder, (struct member_event){.type = MEMBER_EVENT_APPLIED, .line = 3});
    assert_said(recorder, "SAY COMMITTED");
    assert_int_equal(member_line(recorder->member), 0);
    order(recorder, COORD_ACTION_STROBE, 4);
    order(recorder, COORD_ACTION_CAPTURE, 4); /* writes over what line 3 has staged */
    assert_said(recorder, "RECORD OBEY 1 RECORD OBEY 4");
    assert_int_equal(recorder->durable.protected_line, 0);
}

static void an_abort_leaves_what_is_protected(void **state)
{
    struct recorder *recorder = *state;

    run_first(recorder);
    lead_to(recorder, COORD_ACTION_PROTECT, 3);
    of_rank(recorder, MEMBER_EVENT_HELD, 3, 0);
    of_rank(recorder, MEMBER_EVENT_HELD, 3, 1);
    recorder->text[0] = '\0';
    order(recorder, COORD_ACTION_ABORT, 3);
    assert_said(recorder, "OBEY 7");
    assert_int_equal(recorder->durable.protected_line, 3);
    order(recorder, COORD_ACTION_COMMIT, 3);
    assert_said(recorder, "");
}

static void orders_of_another_line_or_phase_are_not_obeyed(void **state)
{
    struct recorder *recorder = *state;

    run_first(recorder);
    order(recorder, COORD_ACTION_CAPTURE, 3);
    assert_said(recorder, "");
    lead_to(recorder, COORD_ACTION_CAPTURE, 3);
    order(recorder, COORD_ACTION_STOP, 3);
    order(recorder, COORD_ACTION_TARGETS, 3);
    order(recorder, COORD_ACTION_PROTECT, 2);
    order(recorder, COORD_ACTION_LINE_DONE, 3);
    of_rank(recorder, MEMBER_EVENT_HELD, 3, 0);
    of_rank(recorder, MEMBER_EVENT_CAPTURED, 3, 2);
    of_rank(recorder, MEMBER_EVENT_CAPTURED, 3, RANKS);
    assert_said(recorder, "");
}

static void data_are_taken_for_the_line_in_progress_with_their_base(void **state)
{
    struct recorder *recorder = *state;
    struct member_event data = {.type = MEMBER_EVENT_DATA,
                                .epoch = 1,
                                .peer = 0,
                                .rank = 2,
                                .line = 3,
                                .base_line = 2,
                                .image_line = 2};

    run_first(recorder);
    step(recorder, data); /* an ABORT has overtaken it, or a STROBE has not come */
    assert_said(recorder, "");
    lead_to(recorder, COORD_ACTION_CAPTURE, 3);
    step(recorder, data);
    assert_said(recorder, "ADMIT HELD 2 of node 0");
    data.image_line = 1;
    step(recorder, data);
    assert_said(recorder, "NEED_BASE 2 of node 0");
    data.base_line = 0; /* a whole image */
    step(recorder, data);
    assert_said(recorder, "ADMIT HELD 2 of node 0");
    recorder->is_full = true;
    assert_int_equal(try_step(recorder, data), -1);
    assert_said(recorder, "");
}

static void what_cannot_be_recorded_ends_the_line(void **state)
{
    struct recorder *recorder = *state;

    run_first(recorder);
    recorder->is_keeper_gone = true;
    assert_int_equal(try_step(recorder, (struct member_event){.type = MEMBER_EVENT_ORDER,
                                                              .epoch = 1,
                                                              .line = 3,
                                                              .order = COORD_ACTION_STROBE}),
                     -1);
    assert_said(recorder, "SAY ABORT"); /* no rank has heard of it */
    recorder->is_keeper_gone = false;
    lead_to(recorder, COORD_ACTION_PROTECT, 4);
    of_rank(recorder, MEMBER_EVENT_HELD, 4, 0);
    of_rank(recorder, MEMBER_EVENT_HELD, 4, 1);
    recorder->text[0] = '\0';
    recorder->is_keeper_gone = true;
    assert_int_equal(try_step(recorder, (struct member_event){.type = MEMBER_EVENT_ORDER,
                                                              .epoch = 1,
                                                              .line = 4,
                                                              .order = COORD_ACTION_COMMIT}),
                     -1);
    assert_said(recorder, "TROUBLE SAY LOST");
}

static void a_member_without_ranks_has_its_words(void **state)
{
    struct recorder *recorder = *state;
    uint32_t members[] = {1, 2}, placement[] = {1}, holder[] = {1};
    uint64_t incarnations[] = {INCARNATION, 9};
    const struct epoch_start opened = {.epoch = 1,
                                       .member_count = 2,
                                       .rank_count = 1,
                                       .members = members,
                                       .incarnations = incarnations,
                                       .placement = placement,
                                       .holder = holder};

    begin(recorder);
    inquire(recorder, 1);
    recorder->text[0] = '\0';
    step(recorder, (struct member_event){.type = MEMBER_EVENT_START, .start = &opened});
    grant(recorder, 1, 0);
    assert_said(recorder, "STOP RECORD ENTER SETTLE 0 COORDINATE RENEW FENCE 900 LAUNCH 0 READY");
    order(recorder, COORD_ACTION_STROBE, 1);
    order(recorder, COORD_ACTION_STOP, 1);
    order(recorder, COORD_ACTION_CAPTURE, 1);
    order(recorder, COORD_ACTION_PROTECT, 1);
    assert_said(recorder, "RECORD OBEY 1 OBEY 3 OBEY 4 SAY CAPTURED RECORD SAY PROTECTED");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(another_life_stops_what_the_last_one_left_and_finishes_its_commit,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_promise_is_recorded_when_the_ranks_are_stopped, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_recorded_is_not_promised, setup, teardown),
        cmocka_unit_test_setup_teardown(an_older_arbiter_is_not_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(only_what_was_promised_is_entered_and_once, setup, teardown),
        cmocka_unit_test_setup_teardown(an_epoch_of_another_memory_is_not_entered, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_run_with_a_lease_and_a_fence, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lease_that_comes_too_late_is_none, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_are_stopped_before_the_lease_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(the_verdict_is_recorded_before_it_is_carried_out, setup, teardown),
        cmocka_unit_test_setup_teardown(missing_images_are_asked_for_until_they_come, setup, teardown),
        cmocka_unit_test_setup_teardown(who_should_have_an_image_and_has_not_reports_trouble, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(losses_are_told_to_arbiter_and_coordinator, setup, teardown),
        cmocka_unit_test_setup_teardown(a_damaged_message_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_line_leaves_its_records_in_their_order, setup, teardown),
        cmocka_unit_test_setup_teardown(an_abort_leaves_what_is_protected, setup, teardown),
        cmocka_unit_test_setup_teardown(orders_of_another_line_or_phase_are_not_obeyed, setup, teardown),
        cmocka_unit_test_setup_teardown(data_are_taken_for_the_line_in_progress_with_their_base, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_recorded_ends_the_line, setup, teardown),
        cmocka_unit_test_setup_teardown(a_member_without_ranks_has_its_words, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
