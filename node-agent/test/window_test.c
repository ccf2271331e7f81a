/*
 * window_test.c - what is known of the pages that a rank has written, and how long a time of it counts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node-agent/member/window.h"
#include "node-agent/store/touched.h"

#define UNIT TOUCHED_UNIT_BYTES
#define PAGE 4096ull

/* ---- what was written ---- */

static void note(struct touched *touched, uint64_t unit, uint64_t count, uint64_t now_ms)
{
    struct run_set units = {0};
    assert_int_equal(runs_append(&units, unit * UNIT, count * UNIT), 0);
    touched_note(touched, &units, now_ms);
    assert_int_equal(units.count, 0);
}

static void assert_within(const struct touched *touched, uint64_t window_ms, uint64_t units)
{
    struct run_set set = {0};
    assert_int_equal(touched_within(touched, window_ms, &set), 0);
    assert_int_equal(runs_bytes(&set), units * UNIT);
    runs_release(&set);
}

static void pages_are_rounded_to_units(void **state)
{
    const struct image_run runs[] = {
        {.address = 2 * UNIT + PAGE, .bytes = PAGE},     /* three of one unit ... */
        {.address = 2 * UNIT + 3 * PAGE, .bytes = PAGE}, /* ... */
        {.address = 3 * UNIT - PAGE, .bytes = 2 * PAGE}, /* ... and the next one */
        {.address = 9 * UNIT, .bytes = UNIT},
    };
    struct run_set set = {0};
    (void)state;
    assert_int_equal(touched_round(runs, 4, &set), 0);
    assert_int_equal(set.count, 2);
    assert_int_equal(set.runs[0].address, 2 * UNIT);
    assert_int_equal(set.runs[0].bytes, 2 * UNIT);
    assert_int_equal(set.runs[1].address, 9 * UNIT);
    assert_int_equal(set.runs[1].bytes, UNIT);
    assert_int_equal(touched_round(runs, 0, &set), 0);
    assert_int_equal(set.count, 0);
}

static void a_window_is_of_whole_lines(void **state)
{
    struct touched *touched = touched_create();
    (void)state;
    assert_within(NULL, 1000, 0);
    assert_within(touched, 1000, 0);
    note(touched, 0, 4, 1000);
    note(touched, 2, 4, 2000);
    note(touched, 10, 1, 3000);
    assert_within(touched, 0, 1); /* the newest line always counts */
    assert_within(touched, 1000, 1);
    assert_within(touched, 1001, 1 + 4);
    assert_within(touched, 2001, 1 + 6); /* two lines have two units in common */
    assert_within(touched, UINT64_MAX, 1 + 6);
    touched_destroy(touched);
}

static void old_lines_are_forgotten(void **state)
{
    struct touched *touched = touched_create();
    (void)state;
    for (uint64_t i = 0; i < 3 * TOUCHED_LINES; i++)
        note(touched, 2 * i, 1, 1000 + i);
    assert_within(touched, UINT64_MAX, TOUCHED_LINES);
    assert_within(touched, 3, 3);
    touched_destroy(touched);
}

/* ---- the window ---- */

/* So many bytes in a second, but no more than the limit in all. */
struct growth {
    double rate, limit;
    unsigned asked;
};

static double grow(void *context, double window_s)
{
    struct growth *growth = context;
    double touched = growth->rate * window_s;
    growth->asked++;
    return touched < growth->limit ? touched : growth->limit;
}

static double choose(double image, double rate, double cap_s, struct growth *growth)
{
    const struct window_request request = {image, rate, cap_s, grow, growth};
    return window_choose_s(&request);
}

static void assert_close(double value, double wanted)
{
    assert_true(value > wanted * .97 && value < wanted * 1.03);
}

static void the_equations(void **state)
{
    (void)state;
    assert_close(window_enough_s(1000, 200, 100), 8);
    assert_true(window_enough_s(1000, 1000, 100) == 0);
    assert_true(window_enough_s(1000, 2000, 100) == 0);
    assert_close(window_next_s(1000, 100, 0, 10), 10);
    assert_close(window_next_s(1000, 100, 1000, 10), 5);
}

/* With a growth that is steady, the window of equation 2 is the least that equation 1 allows, at once. */
static void a_steady_growth(void **state)
{
    struct growth growth = {.rate = 300, .limit = 1e9};
    (void)state;
    double window = choose(1000, 100, 60, &growth);
    assert_close(window, 2.5);
    assert_close(window_enough_s(1000, 300 * window, 100), window);
    assert_true(growth.asked <= 3);
}

/* It is touched again and again: no more than a twentieth of the image. */
static void a_small_working_set(void **state)
{
    struct growth growth = {.rate = 1000, .limit = 50};
    (void)state;
    double window = choose(1000, 100, 60, &growth);
    assert_close(window, window_enough_s(1000, 50, 100));
    assert_true(growth.asked <= 8);
}

static void the_cap(void **state)
{
    struct growth growth = {.rate = 1, .limit = 1e9};
    (void)state;
    assert_true(choose(1e6, 1, 30, &growth) == 30);
    assert_true(choose(1000, 0, 30, &growth) == 30); /* the rate is not known */
    assert_true(choose(0, 100, 30, &growth) == 30);
    assert_true(choose(1000, 100, 0, &growth) == 0);
}

/* Whatever is touched, the window ends, and is one. */
static void any_growth(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        struct growth growth = {.rate = (double)(i * 7919 % 5003), .limit = (double)(i * 104729 % 100003)};
        double window = choose(1 + i * 31 % 2003, 1 + i * 17 % 509, 10, &growth);
        assert_true(window >= 0 && window <= 10);
        assert_true(growth.asked <= 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_rounded_to_units),
        cmocka_unit_test(a_window_is_of_whole_lines),
        cmocka_unit_test(old_lines_are_forgotten),
        cmocka_unit_test(the_equations),
        cmocka_unit_test(a_steady_growth),
        cmocka_unit_test(a_small_working_set),
        cmocka_unit_test(the_cap),
        cmocka_unit_test(any_growth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
