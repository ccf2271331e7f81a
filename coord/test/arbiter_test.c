/* arbiter_test.c - inquiry and leases; what is recorded before it is told; who is waited for. */
#include "coord/test/arbiter_fixture.h"

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

/* Nobody has seen the end of its ranks. */
static void the_lease_of_a_silent_node_is_waited_for_also_if_it_comes_back(void **state)
{
    struct recorder *recorder = *state;
    struct arbiter_event back = state_of(1, 2, NULL);
    struct holding held[NODES][RANKS];

    open_first(recorder, SCHEME_PARTNER);
    hold(held, 4);
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_SILENT, .node = 1});
    step(recorder, committed(state_of(0, 2, held[0]), 4));
    step(recorder, committed(state_of(2, 2, held[2]), 4));
    assert_said(recorder, "");
    assert_int_equal(arbiter_lapse_us(recorder->arbiter), LEASE_US);
    tick_at(recorder, LEASE_US - 1);
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_BACK, .node = 1});
    back.state.incarnation = 999; /* with empty memory: nobody there knows of the ranks that it had */
    step(recorder, back);
    assert_null(strstr(recorder->text, "RECORD"));
    recorder->text[0] = '\0';
    tick_at(recorder, LEASE_US);
    assert_said(recorder, "RECORD 2 line 4 of 3 START 0/2 START 1/2 START 2/2");
}

/* The process was the arbiter before: it knows when it gave the last leases. */
static void known_grants_shorten_the_wait(void **state)
{
    struct recorder *recorder = *state;
    const uint64_t granted_us[NODES] = {30, 10, 20};
    struct holding held[NODES][RANKS];
    const struct arbiter_settings settings = {.node_count = NODES,
                                              .rank_count = RANKS,
                                              .scheme = SCHEME_PARTNER,
                                              .lease_us = LEASE_US,
                                              .collect_us = COLLECT_US,
                                              .repeat_us = REPEAT_US,
                                              .granted_us = granted_us};

    open_first(recorder, SCHEME_PARTNER);
    hold(held, 4);
    arbiter_destroy(recorder->arbiter);
    recorder->arbiter = arbiter_create(&settings, recorder->durable, note_action, recorder);
    assert_non_null(recorder->arbiter);
    recorder->now_us = 100;
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_BEGIN});
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_SILENT, .node = 1});
    assert_int_equal(arbiter_lapse_us(recorder->arbiter), 10 + LEASE_US);
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

    recorder->arbiter = arbiter_create(&settings, NULL, note_action, recorder);
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
    assert_null(arbiter_create(&none, NULL, note_action, recorder));
    for (uint32_t node = 0; node < NODES; node++)
        step(recorder, state_of(node, 1, NULL));
    recorder->durable->holder[1] = NODES; /* a damaged record */
    assert_null(arbiter_create(&some, recorder->durable, note_action, recorder));
    assert_int_equal(errno, EINVAL);
    recorder->durable->holder[1] = 0;
    recorder->durable->members[2] = NODES;
    assert_null(arbiter_create(&some, recorder->durable, note_action, recorder));
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
        cmocka_unit_test_setup_teardown(a_node_that_is_gone_is_not_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(the_lease_of_a_silent_node_is_waited_for_also_if_it_comes_back, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(known_grants_shorten_the_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(nodes_are_asked_again_until_there_is_room, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_may_come_up_where_nobody_has_placed_them, setup, teardown),
        cmocka_unit_test_setup_teardown(a_number_out_of_range_is_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
