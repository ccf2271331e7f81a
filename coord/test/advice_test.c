/* advice_test.c - the interval is the one that wastes the least time, within its limits. */
#include "coord/advice.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define HOUR_MS 3600000.0
#define DAY_MS (24 * HOUR_MS)

static const struct advice_limits wide = {
    .mtbf_ms = DAY_MS, .min_duty = 0, .shortest_ms = 10, .longest_ms = 1ull << 40};

/*
 * Part of the time that is lost with failures as a Poisson process, exactly: a segment of work w with its
 * line c succeeds after M (e^((w+c)/M) - 1) on average (Daly 2006, section 3, without the time of a restart).
 */
static double waste(double work, double cost, double mtbf)
{
    return mtbf * expm1((work + cost) / mtbf) / work - 1;
}

static void no_other_interval_wastes_less(void **state)
{
    static const double costs[] = {1, 50, 5000, 300000};
    (void)state;
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        double best = advice_optimum_ms(costs[i], DAY_MS), least = waste(best, costs[i], DAY_MS);
        for (double factor = 0.5; factor < 2; factor *= 1.05)
            assert_true(least <= waste(best * factor, costs[i], DAY_MS) * 1.0001);
    }
}

static void lines_that_cost_more_than_they_save_are_rare(void **state)
{
    (void)state;
    assert_float_equal(advice_optimum_ms(3 * HOUR_MS, HOUR_MS), HOUR_MS, 1);
}

static void cheap_lines_are_frequent(void **state)
{
    struct advice cheap = {0}, dear = {0};
    (void)state;
    advice_learn(&cheap, 5, 20);
    advice_learn(&dear, 500, 2000);
    uint64_t often = advice_interval_ms(&cheap, &wide), seldom = advice_interval_ms(&dear, &wide);
    assert_in_range(often, 29000, 30000); /* sqrt(2 * 5 ms * 1 day) = 29.4 s */
    assert_in_range(seldom, 290000, 300000);
}

static void duty_and_length_bound_the_interval(void **state)
{
    struct advice_limits limits = {
        .mtbf_ms = 10000, .min_duty = 0.99, .shortest_ms = 10, .longest_ms = 60000};
    struct advice advice = {0};
    (void)state;
    advice_learn(&advice, 100, 120);
    assert_in_range(advice_interval_ms(&advice, &limits), 9999, 10000); /* optimum: 1.4 s */
    limits.min_duty = 0;
    advice = (struct advice){0};
    advice_learn(&advice, 1, 20000);
    assert_int_equal(advice_interval_ms(&advice, &limits), 40000);
    advice = (struct advice){0};
    advice_learn(&advice, 1, 1e6);
    assert_int_equal(advice_interval_ms(&advice, &limits), 60000);
}

static void the_first_line_comes_soon(void **state)
{
    struct advice nothing = {0};
    struct advice_limits limits = wide;
    (void)state;
    assert_int_equal(advice_interval_ms(&nothing, &limits), 10000);
    limits.mtbf_ms = 2000;
    assert_int_equal(advice_interval_ms(&nothing, &limits), 100);
}

static void follows_a_program_that_changes(void **state)
{
    struct advice advice = {0};
    (void)state;
    advice_learn(&advice, 1000, 1000);
    for (int i = 0; i < 30; i++)
        advice_learn(&advice, 10, 10);
    assert_float_equal(advice.cost_ms, 10, 1);
}

static void slow_lines_leave_time_to_run(void **state)
{
    (void)state;
    assert_int_equal(advice_next_ms(500, 20, 5), 480);
    assert_int_equal(advice_next_ms(500, 480, 450), 450);
    assert_int_equal(advice_next_ms(500, 2000, 1900), 1900);
    assert_int_equal(advice_next_ms(500, 500, 0), 1);
}

static void aborted_lines_are_tried_again_soon(void **state)
{
    (void)state;
    const uint64_t expected_ms[] = {3750, 7500, 15000, 30000, 60000, 60000};
    for (unsigned i = 0; i < sizeof expected_ms / sizeof *expected_ms; i++)
        assert_int_equal(advice_retry_ms(60000, i + 1, 20), expected_ms[i]);
    assert_int_equal(advice_retry_ms(60000, 1, 9000), 9000); /* no more than half of the time */
    assert_int_equal(advice_retry_ms(300, 1, 5), 50);
    assert_int_equal(advice_retry_ms(300, 5, 5), 300);
    assert_int_equal(advice_retry_ms(20, 1, 5), 20);
    assert_int_equal(advice_retry_ms(0, 1, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_other_interval_wastes_less),
        cmocka_unit_test(lines_that_cost_more_than_they_save_are_rare),
        cmocka_unit_test(cheap_lines_are_frequent),
        cmocka_unit_test(duty_and_length_bound_the_interval),
        cmocka_unit_test(the_first_line_comes_soon),
        cmocka_unit_test(follows_a_program_that_changes),
        cmocka_unit_test(slow_lines_leave_time_to_run),
        cmocka_unit_test(aborted_lines_are_tried_again_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
