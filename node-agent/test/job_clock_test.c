/*
 * job_clock_test.c - how far another clock is ahead, from requests and answers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node-agent/launch/job_clock.h"

#define MS 1000000ll
#define DAY (86400000 * MS)

static struct job_clock clock_;

static int setup(void **state)
{
    (void)state;
    clock_ = (struct job_clock){0};
    return 0;
}

/* The other clock is `ahead`; the request took up_ns, the answer down_ns. */
static void exchange(uint64_t asked_ns, int64_t ahead_ns, int64_t up_ns, int64_t down_ns)
{
    uint64_t given_ns = (uint64_t)((int64_t)asked_ns + up_ns + ahead_ns);
    job_clock_learn(&clock_, asked_ns, given_ns, asked_ns + (uint64_t)(up_ns + down_ns));
}

static int64_t error_of(int64_t ahead_ns)
{
    return llabs(job_clock_ahead_ns(&clock_) - ahead_ns);
}

static void nothing_is_known(void **state)
{
    (void)state;
    assert_int_equal(job_clock_ahead_ns(&clock_), 0);
}

static void wrong_by_half_the_time_at_most(void **state)
{
    (void)state;
    exchange(500 * DAY, 3 * DAY, MS, 0);
    assert_in_range(error_of(3 * DAY), 0, MS / 2);
    clock_ = (struct job_clock){0};
    exchange(500 * DAY, -3 * DAY, 0, MS);
    assert_in_range(error_of(-3 * DAY), 0, MS / 2);
}

/* One answer was slow, the next one's request was. */
static void several_answers_tell_more(void **state)
{
    (void)state;
    exchange(500 * DAY, DAY, 10000, 40 * MS);
    exchange(500 * DAY + 1000 * MS, DAY, 40 * MS, 10000);
    assert_in_range(error_of(DAY), 0, 60000);
}

static void the_same_clock(void **state)
{
    (void)state;
    exchange(DAY, 0, MS, 3 * MS);
    assert_int_equal(job_clock_ahead_ns(&clock_), 0);
}

/* The arbiter was begun anew on another machine, or the machine was suspended. */
static void another_clock(void **state)
{
    (void)state;
    exchange(500 * DAY, DAY, MS, MS);
    exchange(500 * DAY + 1000 * MS, 2 * DAY, MS, MS);
    assert_in_range(error_of(2 * DAY), 0, MS);
}

static void clocks_that_run_apart(void **state)
{
    (void)state;
    for (int64_t s = 0; s < 3600; s++)
        exchange(500 * DAY + (uint64_t)(s * 1000 * MS), DAY + s * 40000, MS, MS);
    assert_in_range(error_of(DAY + 3599 * 40000), 0, 2 * MS);
}

static void nonsense(void **state)
{
    (void)state;
    job_clock_learn(&clock_, 5 * MS, MS, 4 * MS);
    job_clock_learn(&clock_, 4 * MS, UINT64_MAX, 5 * MS);
    job_clock_learn(&clock_, 4 * MS, MS, UINT64_MAX);
    assert_false(clock_.is_known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_known, setup),
        cmocka_unit_test_setup(wrong_by_half_the_time_at_most, setup),
        cmocka_unit_test_setup(several_answers_tell_more, setup),
        cmocka_unit_test_setup(the_same_clock, setup),
        cmocka_unit_test_setup(another_clock, setup),
        cmocka_unit_test_setup(clocks_that_run_apart, setup),
        cmocka_unit_test_setup(nonsense, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
