/* waitfor_test.c - settled ranks are counted, demand follows the edges, held ranks at their end go on. */
#include "coord/waitfor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define RANKS 4

static int setup(void **state)
{
    struct waitfor *waitfor = malloc(sizeof(*waitfor));

    if (!waitfor || waitfor_init(waitfor, RANKS) < 0)
        return -1;
    waitfor_begin_version(waitfor, 0);
    waitfor_begin_version(waitfor, 1);
    *state = waitfor;
    return 0;
}

static int teardown(void **state)
{
    waitfor_destroy(*state);
    free(*state);
    return 0;
}

static void say(struct waitfor *waitfor, uint32_t rank, enum coord_rank_state rank_state, bool is_below)
{
    const struct coord_report report = {
        .rank = rank, .state = rank_state, .is_below = is_below, .targets_version = waitfor->version};

    assert_int_equal(waitfor_report(waitfor, &report), 0);
}

static void say_held(struct waitfor *waitfor, uint32_t rank, bool is_below, uint64_t comm, uint64_t seq)
{
    const struct coord_report report = {.rank = rank,
                                        .state = COORD_RANK_HELD,
                                        .is_below = is_below,
                                        .comm = comm,
                                        .seq = seq,
                                        .targets_version = waitfor->version};

    assert_int_equal(waitfor_report(waitfor, &report), 0);
}

static void say_waiting(struct waitfor *waitfor, uint32_t rank, bool is_below, uint32_t count,
                        const int32_t *peers)
{
    const struct coord_report report = {.rank = rank,
                                        .state = COORD_RANK_WAITING,
                                        .is_below = is_below,
                                        .peer_count = count,
                                        .peers = peers,
                                        .targets_version = waitfor->version};

    assert_int_equal(waitfor_report(waitfor, &report), 0);
}

static void settled_needs_every_rank(void **state)
{
    struct waitfor *waitfor = *state;

    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_false(waitfor_is_settled(waitfor));
        say(waitfor, rank, COORD_RANK_RUNNING, false);
        say(waitfor, rank, COORD_RANK_RUNNING, false);
    }
    assert_true(waitfor_is_settled(waitfor));
    say(waitfor, 2, COORD_RANK_INSIDE, false);
    assert_false(waitfor_is_settled(waitfor));
    say(waitfor, 2, COORD_RANK_RUNNING, true);
    assert_false(waitfor_is_settled(waitfor));
    say(waitfor, 2, COORD_RANK_RUNNING, false);
    assert_true(waitfor_is_settled(waitfor));
    waitfor_begin_version(waitfor, 2);
    assert_false(waitfor_is_settled(waitfor));
}

static void reports_for_other_targets_do_not_count(void **state)
{
    struct waitfor *waitfor = *state;
    struct coord_report report = {.state = COORD_RANK_RUNNING};

    for (report.rank = 0; report.rank < RANKS; report.rank++)
        assert_int_equal(waitfor_report(waitfor, &report), 0);
    assert_false(waitfor_is_settled(waitfor));
}

static void a_held_peer_is_released(void **state)
{
    struct waitfor *waitfor = *state;

    say_held(waitfor, 1, false, 9, 4);
    assert_int_equal(waitfor->released_count, 0);
    say_waiting(waitfor, 0, true, 1, (int32_t[]){1});
    assert_int_equal(waitfor->released_count, 1);
    assert_int_equal(waitfor->released[0].comm, 9);
    assert_int_equal(waitfor->released[0].seq, 4);
}

static void a_chain_is_followed_in_any_order_of_arrival(void **state)
{
    struct waitfor *waitfor = *state;

    say_waiting(waitfor, 0, true, 1, (int32_t[]){1});
    say_held(waitfor, 3, false, 5, 1);
    say_waiting(waitfor, 2, false, 2, (int32_t[]){0, 3});
    assert_int_equal(waitfor->released_count, 0);
    say_waiting(waitfor, 1, false, 1, (int32_t[]){2});
    assert_int_equal(waitfor->released_count, 1);
}

static void a_demanded_rank_is_released_when_it_holds_later(void **state)
{
    struct waitfor *waitfor = *state;

    say(waitfor, 1, COORD_RANK_RUNNING, false);
    say_waiting(waitfor, 0, true, 1, (int32_t[]){1});
    assert_int_equal(waitfor->released_count, 0);
    say_held(waitfor, 1, false, 2, 8);
    assert_int_equal(waitfor->released_count, 1);
}

static void a_wait_for_anybody_releases_all(void **state)
{
    struct waitfor *waitfor = *state;

    say_held(waitfor, 1, false, 1, 1);
    say_held(waitfor, 2, false, 2, 1);
    say_waiting(waitfor, 0, true, 0, NULL);
    assert_int_equal(waitfor->released_count, 2);
    waitfor_clear_released(waitfor);
    say_held(waitfor, 3, false, 3, 1);
    assert_int_equal(waitfor->released_count, 1);
}

static void who_waits_at_target_demands_nothing(void **state)
{
    struct waitfor *waitfor = *state;

    say_held(waitfor, 1, false, 1, 1);
    say_waiting(waitfor, 0, false, 1, (int32_t[]){1});
    assert_int_equal(waitfor->released_count, 0);
}

static void who_holds_below_target_needs_no_release(void **state)
{
    struct waitfor *waitfor = *state;

    say_held(waitfor, 1, true, 1, 1);
    say_waiting(waitfor, 0, true, 1, (int32_t[]){1});
    assert_int_equal(waitfor->released_count, 0);
    say_held(waitfor, 1, false, 1, 1);
    assert_int_equal(waitfor->released_count, 1);
}

static void demand_ends_with_its_version_and_line(void **state)
{
    struct waitfor *waitfor = *state;

    say_waiting(waitfor, 0, true, 1, (int32_t[]){1});
    waitfor_begin_version(waitfor, 2);
    say_held(waitfor, 1, false, 1, 1);
    assert_int_equal(waitfor->released_count, 0);
    say_waiting(waitfor, 0, true, 1, (int32_t[]){1});
    assert_int_equal(waitfor->released_count, 1);
    waitfor_clear_released(waitfor);
    waitfor_begin_version(waitfor, 0);
    waitfor_begin_version(waitfor, 1);
    waitfor_begin_version(waitfor, 2);
    say_held(waitfor, 1, false, 1, 1);
    assert_int_equal(waitfor->released_count, 0);
}

static void cycles_and_wild_peers_are_harmless(void **state)
{
    struct waitfor *waitfor = *state;

    say_waiting(waitfor, 0, true, 2, (int32_t[]){1, 0});
    say_waiting(waitfor, 1, true, 3, (int32_t[]){0, -1, 4711});
    assert_int_equal(waitfor->released_count, 0);
}

/* A chain through all ranks of a large job, told backwards: each report costs its own edges only. */
static void a_long_chain_is_cheap(void **state)
{
    enum { LONG = 200000 };
    struct waitfor waitfor;

    (void)state;
    assert_int_equal(waitfor_init(&waitfor, LONG), 0);
    waitfor_begin_version(&waitfor, 1);
    say_held(&waitfor, LONG - 1, false, 1, 1);
    for (int32_t rank = LONG - 2; rank > 0; rank--)
        say_waiting(&waitfor, (uint32_t)rank, false, 1, (int32_t[]){rank + 1});
    assert_int_equal(waitfor.released_count, 0);
    say_waiting(&waitfor, 0, true, 1, (int32_t[]){1});
    assert_int_equal(waitfor.released_count, 1);
    for (uint32_t rank = 0; rank < LONG; rank++)
        say_waiting(&waitfor, rank, true, 0, NULL);
    assert_int_equal(waitfor.unsettled, LONG);
    waitfor_destroy(&waitfor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(settled_needs_every_rank, setup, teardown),
        cmocka_unit_test_setup_teardown(reports_for_other_targets_do_not_count, setup, teardown),
        cmocka_unit_test_setup_teardown(a_held_peer_is_released, setup, teardown),
        cmocka_unit_test_setup_teardown(a_chain_is_followed_in_any_order_of_arrival, setup, teardown),
        cmocka_unit_test_setup_teardown(a_demanded_rank_is_released_when_it_holds_later, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wait_for_anybody_releases_all, setup, teardown),
        cmocka_unit_test_setup_teardown(who_waits_at_target_demands_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(who_holds_below_target_needs_no_release, setup, teardown),
        cmocka_unit_test_setup_teardown(demand_ends_with_its_version_and_line, setup, teardown),
        cmocka_unit_test_setup_teardown(cycles_and_wild_peers_are_harmless, setup, teardown),
        cmocka_unit_test(a_long_chain_is_cheap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
