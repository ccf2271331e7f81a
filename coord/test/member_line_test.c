/* member_line_test.c - the orders of a line, its records, and data of other members. */
#include "coord/test/member_fixture.h"

static void a_line_leaves_its_records_in_their_order(void **state)
{
    struct recorder *recorder = *state;

    run_first(recorder);
    recorder->durable.protected_line = 0;
    order(recorder, COORD_ACTION_STROBE, 3); /* of a line that has not been prepared */
    assert_said(recorder, "");
    order(recorder, COORD_ACTION_PREPARE, 3);
    assert_said(recorder, "RECORD OBEY 1");
    assert_int_equal(recorder->durable.last_line, 3);
    order(recorder, COORD_ACTION_STROBE, 3);
    order(recorder, COORD_ACTION_TARGETS, 3);
    order(recorder, COORD_ACTION_TARGETS, 3);
    order(recorder, COORD_ACTION_STOP, 3);
    order(recorder, COORD_ACTION_DRAIN, 3);
    order(recorder, COORD_ACTION_CAPTURE, 3);
    assert_said(recorder, "OBEY 2 OBEY 3 OBEY 3 OBEY 4 OBEY 5 OBEY 6");
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
    assert_said(recorder, "RECORD OBEY 8");
    assert_int_equal(recorder->durable.committed_line, 3);
    order(recorder, COORD_ACTION_ABORT, 3); /* a line in COMMIT does not abort */
    assert_said(recorder, "");
    step(recorder, (struct member_event){.type = MEMBER_EVENT_APPLIED, .line = 3});
    assert_said(recorder, "SAY COMMITTED");
    assert_int_equal(member_line(recorder->member), 0);
    order(recorder, COORD_ACTION_PREPARE, 4);
    order(recorder, COORD_ACTION_CAPTURE, 4); /* writes over what line 3 has staged */
    assert_said(recorder, "RECORD OBEY 1 RECORD OBEY 6");
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
    assert_said(recorder, "OBEY 9");
    assert_int_equal(recorder->durable.protected_line, 3);
    order(recorder, COORD_ACTION_COMMIT, 3);
    assert_said(recorder, "");
}

/* Its copy is another image: without the rank's home, nobody would know. */
static void nothing_refuted_stays_protected(void **state)
{
    struct recorder *recorder = *state;
    struct member_event refuted = {
        .type = MEMBER_EVENT_ORDER, .epoch = 1, .line = 2, .order = COORD_ACTION_ABORT, .is_refuted = true};

    run_first(recorder);
    lead_to(recorder, COORD_ACTION_PROTECT, 3);
    of_rank(recorder, MEMBER_EVENT_HELD, 3, 0);
    of_rank(recorder, MEMBER_EVENT_HELD, 3, 1);
    recorder->text[0] = '\0';
    step(recorder, refuted); /* of another line */
    assert_said(recorder, "");
    refuted.line = 3;
    step(recorder, refuted);
    assert_said(recorder, "RECORD OBEY 9");
    assert_int_equal(recorder->durable.protected_line, 0);
}

/* LEAVE does not move the line on: what follows is obeyed as without it. */
static void a_drain_is_left_before_or_after_its_order(void **state)
{
    struct recorder *recorder = *state;

    run_first(recorder);
    order(recorder, COORD_ACTION_PREPARE, 3);
    order(recorder, COORD_ACTION_LEAVE, 3); /* nobody drains yet */
    order(recorder, COORD_ACTION_STOP, 3);
    recorder->text[0] = '\0';
    order(recorder, COORD_ACTION_LEAVE, 2);
    assert_said(recorder, "");
    order(recorder, COORD_ACTION_LEAVE, 3);
    order(recorder, COORD_ACTION_DRAIN, 3);
    order(recorder, COORD_ACTION_LEAVE, 3);
    assert_said(recorder, "OBEY 10 OBEY 5 OBEY 10");
    order(recorder, COORD_ACTION_CAPTURE, 3);
    recorder->text[0] = '\0';
    order(recorder, COORD_ACTION_LEAVE, 3);
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
    step(recorder, data); /* an ABORT has overtaken it, or a PREPARE has not come */
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
                                                              .order = COORD_ACTION_PREPARE}),
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
    uint64_t incarnations[] = {INCARNATION, 9}, processors[] = {1, 1};
    const struct epoch_start opened = {.epoch = 1,
                                       .member_count = 2,
                                       .rank_count = 1,
                                       .members = members,
                                       .incarnations = incarnations,
                                       .processors = processors,
                                       .placement = placement,
                                       .holder = holder};

    begin(recorder);
    inquire(recorder, 1);
    recorder->text[0] = '\0';
    step(recorder, (struct member_event){.type = MEMBER_EVENT_START, .start = &opened});
    grant(recorder, 1, 0);
    assert_said(recorder, "STOP RECORD ENTER SETTLE 0 COORDINATE RENEW FENCE 900 LAUNCH 0 READY");
    order(recorder, COORD_ACTION_PREPARE, 1);
    order(recorder, COORD_ACTION_STOP, 1);
    order(recorder, COORD_ACTION_CAPTURE, 1);
    order(recorder, COORD_ACTION_PROTECT, 1);
    assert_said(recorder, "RECORD OBEY 1 OBEY 4 OBEY 6 SAY CAPTURED RECORD SAY PROTECTED");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_leaves_its_records_in_their_order, setup, teardown),
        cmocka_unit_test_setup_teardown(an_abort_leaves_what_is_protected, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_refuted_stays_protected, setup, teardown),
        cmocka_unit_test_setup_teardown(a_drain_is_left_before_or_after_its_order, setup, teardown),
        cmocka_unit_test_setup_teardown(orders_of_another_line_or_phase_are_not_obeyed, setup, teardown),
        cmocka_unit_test_setup_teardown(data_are_taken_for_the_line_in_progress_with_their_base, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_recorded_ends_the_line, setup, teardown),
        cmocka_unit_test_setup_teardown(a_member_without_ranks_has_its_words, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
