/* arbiter_line_test.c - which line an epoch goes on from, with which members, and where ranks are placed. */
#include "coord/test/arbiter_fixture.h"

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

/* Node 1 is lost; its copy is at node 2, whose processors are others, and so are those of node 0. */
static void ranks_wait_for_a_node_with_like_processors(void **state)
{
    struct recorder *recorder = *state;
    struct holding held[NODES][RANKS];
    struct arbiter_event event;

    open_first(recorder, SCHEME_PARTNER);
    recorder->durable->processors[1] = 8;
    begin(recorder, SCHEME_PARTNER, LEASE_US);
    hold(held, 4);
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_GONE, .node = 1});
    step(recorder, committed(state_of(0, 2, held[0]), 4));
    recorder->text[0] = '\0';
    step(recorder, committed(state_of(2, 2, held[2]), 4));
    assert_said(recorder, "");
    assert_int_equal(arbiter_wants(recorder->arbiter), ARBITER_WANT_PROCESSORS);
    assert_true(arbiter_is_stuck(recorder->arbiter));
    event = committed(state_of(0, 2, held[0]), 4);
    event.state.processor = 8; /* as if another node had come; rank 0 goes on at node 2 then */
    step(recorder, event);
    assert_said(recorder, "RECORD 2 line 4 of 2 START 0/2 START 2/2");
    assert_int_equal(recorder->durable->placement[0], 1);
    assert_int_equal(recorder->durable->placement[1], 0);
}

/* Nodes 2 and 3 stand by; node 3 comes before node 2, whose processors are others. */
static void a_spare_with_like_processors_takes_the_place(void **state)
{
    struct recorder *recorder = *state;
    const struct holding held[RANKS] = {{.image_line = 4}, {.image_line = 4}, {.image_line = 4}};
    const struct arbiter_settings settings = {.node_count = 4,
                                              .rank_count = RANKS,
                                              .max_members = 2,
                                              .scheme = SCHEME_PARTNER,
                                              .collect_us = COLLECT_US};

    recorder->arbiter = arbiter_create(&settings, NULL, note_action, recorder);
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_BEGIN});
    for (uint32_t epoch = 1; epoch <= 2; epoch++) {
        recorder->text[0] = '\0';
        for (uint32_t node = epoch - 1; node < 4; node++) {
            struct arbiter_event event = state_of(node, epoch, epoch == 2 && node == 1 ? held : NULL);

            event.state.processor = node == 2 ? 8 : 7;
            event.state.committed_line = event.state.last_line = epoch == 2 && node == 1 ? 4 : 0;
            step(recorder, event);
        }
        if (epoch == 1)
            step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_GONE, .node = 0});
    }
    assert_said(recorder, "RECORD 2 line 4 of 2 START 3/2 START 1/2");
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

    recorder->arbiter = arbiter_create(&settings, NULL, note_action, recorder);
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

/* The record that members had been told does not name the incarnations of all: these have to have entered. */
static void a_member_of_unknown_incarnation_survives_if_it_has_entered(void **state)
{
    struct recorder *recorder = *state;
    struct holding held[NODES][RANKS];

    open_first(recorder, SCHEME_PARTNER);
    recorder->durable->incarnations[0] = recorder->durable->incarnations[1] = 0;
    begin(recorder, SCHEME_PARTNER, LEASE_US);
    recorder->text[0] = '\0';
    hold(held, 3);
    for (uint32_t node = 0; node < NODES; node++) {
        struct arbiter_event event = state_of(node, 2, held[node]);

        if (node == 0) { /* it has entered the epoch, and committed line 3 there */
            event = committed(event, 3);
            event.state.entered_epoch = 1;
        } else if (node == 1) { /* it has not: what it says of an earlier life is of no weight */
            event = committed(event, 9);
        }
        step(recorder, event);
    }
    assert_int_equal(arbiter_record(recorder->arbiter)->epoch, 2);
    assert_int_equal(arbiter_record(recorder->arbiter)->line, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_member_of_unknown_incarnation_survives_if_it_has_entered, setup,
                                        teardown),
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
        cmocka_unit_test_setup_teardown(a_spare_with_like_processors_takes_the_place, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_wait_for_a_node_with_like_processors, setup, teardown),
        cmocka_unit_test_setup_teardown(an_epoch_is_opened_with_just_enough_nodes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_spare_takes_the_place_of_a_lost_member, setup, teardown),
        cmocka_unit_test_setup_teardown(a_spare_that_alone_has_an_image_is_a_member, setup, teardown),
        cmocka_unit_test_setup_teardown(members_of_a_failure_domain_do_not_hold_copies_for_one_another, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_rank_stays_where_its_image_is_if_there_is_room, setup, teardown),
        cmocka_unit_test_setup_teardown(of_two_holders_the_rank_stays_at_home, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_gone_node_held_alone_is_lost, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
