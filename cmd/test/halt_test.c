/* Halts: which times are understood, and at which line the conditions are met. */
#include "cmd/halt.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define NOON 1764244800 /* 2025-11-27 12:00:00 UTC */

static void expect_time(const char *text, int64_t at_s)
{
    struct belay_error err;
    int64_t found;
    assert_int_equal(halt_parse_time(text, NOON, &found, &err), 0);
    assert_int_equal(found, at_s);
}

static void expect_refused(const char *text, int code)
{
    struct belay_error err;
    int64_t found;
    assert_int_equal(halt_parse_time(text, NOON, &found, &err), -1);
    assert_int_equal(err.code, code);
    assert_non_null(strstr(err.text, text));
}

static void test_times(void **state)
{
    (void)state;
    expect_time("12:00:01", NOON + 1);
    expect_time("13:30", NOON + 5400);
    expect_time("12:00", NOON + 86400); /* today's is past: tomorrow's */
    expect_time("00:00", NOON + 43200);
    expect_time("2025-11-28", NOON + 43200);
    expect_time("2025-11-27T12:01", NOON + 60);
    expect_time("2026-01-01T00:00:10", NOON + 34 * 86400 + 43210);
}

static void test_refused_times(void **state)
{
    (void)state;
    static const char *const none[] = {"soon", "25:00", "12:00x", "12", "2025-13-01", "2025-11-28 12:00",
                                       "N/A"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        expect_refused(none[i], EINVAL);
    expect_refused("2025-11-27T11:59", ERANGE);
    expect_refused("2025-11-27", ERANGE);
}

static int read_plan(struct halt_plan *plan, const char *lines, const char *at, const char *limit,
                     struct belay_error *err)
{
    const char *texts[CONF_END] = {
        [CONF_HALT_AFTER_LINES] = lines, [CONF_HALT_AT] = at, [CONF_HALT_BEFORE_LIMIT] = limit};
    return halt_read(plan, texts, err);
}

static void test_options(void **state)
{
    (void)state;
    struct halt_plan plan;
    struct belay_error err;
    assert_int_equal(read_plan(&plan, NULL, NULL, NULL, &err), 0);
    assert_true(plan.after_lines == 0 && plan.at_s == 0);
    assert_int_equal(read_plan(&plan, "3", "23:59:59", NULL, &err), 0);
    assert_true(plan.after_lines == 3 && plan.at_s > time(NULL) && plan.at_name == CONF_HALT_AT);
    assert_int_equal(read_plan(&plan, "0", NULL, NULL, &err), -1);
    assert_non_null(strstr(err.text, "leave --halt-after-lines out"));
    assert_int_equal(read_plan(&plan, NULL, "never", NULL, &err), -1);
    assert_non_null(strstr(err.text, "--halt-at never: "));
    unsetenv("SLURM_JOB_ID");
    assert_int_equal(read_plan(&plan, NULL, NULL, "30s", &err), -1);
    assert_string_equal(err.text, "--halt-before-limit 30s: this is not in a job of Slurm's");
}

static void test_lines(void **state)
{
    (void)state;
    struct halt halt = {.plan.after_lines = 2};
    char text[64];
    halt_note_line(&halt, 7);
    halt_note_line(&halt, 7); /* each agent tells it */
    assert_false(halt.is_met);
    assert_int_equal(halt_look_at_ms(&halt), 0);
    halt_note_line(&halt, 9);
    assert_true(halt.is_met);
    halt_note_line(&halt, 10); /* comes as the launch ends */
    assert_int_equal(halt.newest_line, 9);
    assert_string_equal(halt_reason(&halt, text), "--halt-after-lines");
}

static void test_time_of_day(void **state)
{
    (void)state;
    char text[64];
    struct halt later = {.plan = {.at_s = time(NULL) + 1000000000, .at_name = CONF_HALT_AT}};
    halt_note_line(&later, 1);
    assert_false(later.is_met);
    assert_true(halt_look_at_ms(&later) > 0);
    struct halt now = {.plan = {.at_s = time(NULL), .at_name = CONF_HALT_BEFORE_LIMIT}};
    assert_false(now.is_met); /* before a line is committed */
    halt_note_line(&now, 1);
    assert_true(now.is_met);
    assert_string_equal(halt_reason(&now, text), "--halt-before-limit");
}

int main(void)
{
    setenv("TZ", "UTC", 1);
    tzset();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times), cmocka_unit_test(test_refused_times), cmocka_unit_test(test_options),
        cmocka_unit_test(test_lines), cmocka_unit_test(test_time_of_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
