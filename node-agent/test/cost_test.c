/* cost_test.c - the choices of the policy `auto`: by hand, at their limits, and as measurements move them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node-agent/capture/cost.h"

#define MIB (1ull << 20)

static void expect_near(double is, double should)
{
    if (fabs(is - should) > 1e-9 * fabs(should))
        fail_msg("%g is not %g", is, should);
}

static void both_ways_by_hand(void **state)
{
    (void)state;
    const struct cost cost = {.copy_ns = 0.2, .guard_ns = 0.02, .fault_ns = 0.4};
    struct cost_ways ways = cost_of(&cost, 1000000, 4000000);
    expect_near(ways.copied_ns, 200e3);
    expect_near(ways.guarded_ns, 200e3 + 1e6 * (0.02 + 0.25 * 0.4) + 0.125 * 4e6 * 0.2);
    expect_near(cost_pause_ns(&cost, 1000000, 0), 200e3);
    expect_near(cost_pause_ns(&cost, 0, 1000000), 220e3);
    expect_near(cost_pause_ns(&cost, 0, 0) + 1, 1);
}

/* Before anything is measured: large memory that is written is protected, little and scattered writes are
 * not. */
static void at_first(void **state)
{
    (void)state;
    struct cost cost;
    cost_init(&cost);
    assert_true(cost_is_guarding_cheaper(&cost, 1024 * MIB, 1024 * MIB));
    assert_true(cost_is_guarding_cheaper(&cost, 8 * MIB, 8 * MIB));
    assert_false(cost_is_guarding_cheaper(&cost, 1 * MIB, 1 * MIB));
    assert_false(cost_is_guarding_cheaper(&cost, 10 * MIB, 1024 * MIB));
    assert_false(cost_is_guarding_cheaper(&cost, 0, 1024 * MIB));
    assert_true(cost_is_ahead_worth(&cost));
}

static void writers_that_wait_speak_against_protection(void **state)
{
    (void)state;
    struct cost cost;
    cost_init(&cost);
    for (unsigned line = 0; line < 8; line++) /* a second for a GiB, which a copy takes 0.1 s for */
        cost_note_faults(&cost, 1024 * MIB, 1000000000);
    assert_false(cost_is_guarding_cheaper(&cost, 1024 * MIB, 1024 * MIB));
    for (unsigned line = 0; line < 8; line++)
        cost_note_faults(&cost, 1024 * MIB, 0);
    assert_true(cost_is_guarding_cheaper(&cost, 1024 * MIB, 1024 * MIB));
}

static void slow_copies_speak_for_protection(void **state)
{
    (void)state;
    struct cost cost;
    cost_init(&cost);
    assert_false(cost_is_guarding_cheaper(&cost, 2 * MIB, 2 * MIB));
    for (unsigned line = 0; line < 8; line++)
        cost_note_copied(&cost, 2 * MIB, 2 * MIB);
    assert_true(cost_is_guarding_cheaper(&cost, 2 * MIB, 2 * MIB));
    for (unsigned line = 0; line < 8; line++)
        cost_note_guarded(&cost, 2 * MIB, 200000 + 4 * MIB);
    assert_false(cost_is_guarding_cheaper(&cost, 2 * MIB, 2 * MIB));
}

static void little_tells_nothing(void **state)
{
    (void)state;
    struct cost cost, before;
    cost_init(&cost);
    before = cost;
    cost_note_copied(&cost, 4096, 1000000000);
    cost_note_guarded(&cost, 4096, 1000000000);
    cost_note_faults(&cost, 0, 0);
    cost_note_ahead(&cost, 4096, 0);
    assert_memory_equal(&cost, &before, sizeof cost);
    cost_note_guarded(&cost, MIB, 1); /* less than the fixed part */
    assert_true(cost.guard_ns >= 0);
}

/* A way that was slow once is tried again. */
static void beliefs_fade(void **state)
{
    (void)state;
    struct cost cost;
    unsigned lines = 0;
    cost_init(&cost);
    cost_note_faults(&cost, 64 * MIB, 10 * 64 * MIB); /* on a machine that was busy */
    assert_false(cost_is_guarding_cheaper(&cost, 64 * MIB, 64 * MIB));
    for (; !cost_is_guarding_cheaper(&cost, 64 * MIB, 64 * MIB); lines++)
        cost_note_faults(&cost, 0, 0);
    assert_in_range(lines, 2, 40);
    cost_note_copied(&cost, 64 * MIB, 10 * 64 * MIB);
    assert_true(cost_is_guarding_cheaper(&cost, 32 * MIB, 64 * MIB));
    expect_near(cost.copy_ns, 0.1 + (10 - 0.1) / 2);
    cost_note_copied(&cost, 0, 0);
    expect_near(cost.copy_ns, 0.1 + (10 - 0.1) / 2 * 7 / 8);
}

/* What is copied ahead in vain is not copied ahead, but tried again. */
static void copies_ahead_in_vain(void **state)
{
    (void)state;
    struct cost cost;
    unsigned tried = 0;
    cost_init(&cost);
    for (unsigned line = 0; line < 4; line++)
        cost_note_ahead(&cost, 100 * MIB, 5 * MIB);
    assert_false(cost_is_ahead_worth(&cost));
    for (unsigned line = 0; line < 4 * COST_TRIAL_LINES; line++) {
        bool is_worth = cost_is_ahead_worth(&cost);
        tried += is_worth;
        cost_note_ahead(&cost, is_worth ? 100 * MIB : 0, 0);
    }
    assert_int_equal(tried, 4);
    while (!cost_is_ahead_worth(&cost))
        cost_note_ahead(&cost, 0, 0);
    cost_note_ahead(&cost, 100 * MIB, 100 * MIB); /* it has cooled */
    assert_true(cost_is_ahead_worth(&cost));
    cost_note_ahead(&cost, 100 * MIB, 200 * MIB); /* more than all is all */
    assert_true(cost.yield <= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways_by_hand),
        cmocka_unit_test(at_first),
        cmocka_unit_test(writers_that_wait_speak_against_protection),
        cmocka_unit_test(slow_copies_speak_for_protection),
        cmocka_unit_test(little_tells_nothing),
        cmocka_unit_test(beliefs_fade),
        cmocka_unit_test(copies_ahead_in_vain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
