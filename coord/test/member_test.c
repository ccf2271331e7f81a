/* member_test.c - promise, start, lease and images: what is done before what. */
#include "coord/test/member_fixture.h"

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
    order(recorder, COORD_ACTION_PREPARE, 1); /* the old coordinator */
    grant(recorder, 1, 0);                    /* and the old lease */
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
    grant(recorder, 1, REPEAT_US + 1); /* never asked for */
    assert_said(recorder, "");
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

/* Staged or an image: what is here of rank 1 is not what was committed, and node 0 has that. */
static void another_image_than_the_committed_one_is_missing(void **state)
{
    struct recorder *recorder = *state;
    const struct holding held[RANKS] = {{.image_line = 5},
                                        {.image_line = 4, .staging_line = 5, .base_line = 4}};
    const struct digest roots[2 * RANKS] = {{{7}}, {{0}}, {{8}}, {{9}}};
    struct digest committed[RANKS] = {{{7}}, {{10}}};
    uint32_t members[] = {0, 1, 2}, placement[] = {1, 1, 2}, holder[] = {1, 0, 2};
    uint64_t incarnations[] = {7, INCARNATION, 9}, processors[] = {1, 1, 1};
    const struct epoch_start opened = {.epoch = 1,
                                       .line = 5,
                                       .last_line = 7,
                                       .member_count = 3,
                                       .rank_count = RANKS,
                                       .members = members,
                                       .incarnations = incarnations,
                                       .processors = processors,
                                       .placement = placement,
                                       .holder = holder,
                                       .roots = committed};

    begin(recorder);
    inquire(recorder, 1);
    step(
        recorder,
        (struct member_event){
            .type = MEMBER_EVENT_START, .start = &opened, .held_count = RANKS, .held = held, .roots = roots});
    grant(recorder, 1, 0);
    assert_said(recorder,
                "STOP STOP RECORD ANSWER 1 STOP RECORD ENTER SETTLE 5 RENEW FETCH 1 of node 0 FENCE 900");
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

static void ranks_may_come_up_after_the_start(void **state)
{
    struct recorder *recorder = *state;
    uint32_t placement[] = {0}, holder[] = {0};
    struct epoch_start opened = alone(placement, holder);

    begin(recorder);
    inquire(recorder, 1);
    step(recorder, (struct member_event){.type = MEMBER_EVENT_START, .start = &opened});
    opened.rank_count = 1;
    step(recorder, (struct member_event){.type = MEMBER_EVENT_PLACED, .start = &opened});
    lead_to(recorder, COORD_ACTION_CAPTURE, 1);
    step(recorder, (struct member_event){.type = MEMBER_EVENT_PLACED, .start = &opened}); /* once */
    assert_said(recorder, "");
    of_rank(recorder, MEMBER_EVENT_CAPTURED, 1, 0);
    assert_said(recorder, "SAY CAPTURED");
}

static void a_damaged_message_is_refused(void **state)
{
    struct recorder *recorder = *state;
    uint32_t placement[] = {0}, holder[] = {0};
    struct epoch_start opened = alone(placement, holder);
    const struct member_event event = {.type = MEMBER_EVENT_START, .start = &opened};

    opened.line = 5;
    opened.rank_count = 1;
    holder[0] = 1;
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
        cmocka_unit_test_setup_teardown(another_image_than_the_committed_one_is_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(who_should_have_an_image_and_has_not_reports_trouble, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(losses_are_told_to_arbiter_and_coordinator, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_may_come_up_after_the_start, setup, teardown),
        cmocka_unit_test_setup_teardown(a_damaged_message_is_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
