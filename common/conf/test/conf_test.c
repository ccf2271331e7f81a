/* The settings table: precedence of the sources, ranges, hints, and that the man page lists every row. */
#include "common/conf/conf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int clear_environment(void **state)
{
    (void)state;
    for (int key = CONF_NONE + 1; key < CONF_END; key++)
        unsetenv(conf_setting(key)->variable);
    return 0;
}

static void test_precedence(void **state)
{
    (void)state;
    uint64_t value = 77;
    assert_int_equal(conf_number(CONF_MAX_RESTARTS, NULL, &value, NULL), 0);
    assert_int_equal(value, 3);
    setenv("BELAY_MAX_RESTARTS", "5", 1);
    assert_int_equal(conf_number(CONF_MAX_RESTARTS, NULL, &value, NULL), 0);
    assert_int_equal(value, 5);
    assert_int_equal(conf_number(CONF_MAX_RESTARTS, "0", &value, NULL), 0);
    assert_int_equal(value, 0);
    setenv("BELAY_MAX_RESTARTS", "", 1);
    assert_int_equal(conf_number(CONF_MAX_RESTARTS, NULL, &value, NULL), 0);
    assert_int_equal(value, 3);
}

static void test_absent_is_zero(void **state)
{
    (void)state;
    uint64_t value = 77;
    assert_int_equal(conf_number(CONF_INTERVAL, NULL, &value, NULL), 0);
    assert_int_equal(value, 0);
    assert_null(conf_text(CONF_NAME, NULL));
    assert_string_equal(conf_text(CONF_NAME, "heat"), "heat");
    assert_string_equal(conf_text(CONF_LOG, NULL), "info");
}

static void test_pace(void **state)
{
    struct conf_pace pace;
    (void)state;
    assert_int_equal(conf_pace("10s", NULL, NULL, &pace, NULL), 0);
    assert_int_equal(pace.interval_ms, 10000);
    assert_int_equal(pace.mtbf_ms, 0);
    assert_int_equal(conf_pace("auto", NULL, "95", &pace, NULL), 0);
    assert_int_equal(pace.interval_ms, 0);
    assert_int_equal(pace.mtbf_ms, 24 * 3600 * 1000);
    assert_int_equal(pace.duty_percent, 95);
    setenv("BELAY_INTERVAL", "auto", 1);
    setenv("BELAY_MTBF", "2h", 1);
    assert_int_equal(conf_pace(NULL, NULL, NULL, &pace, NULL), 0);
    assert_int_equal(pace.mtbf_ms, 2 * 3600 * 1000);
    assert_int_equal(conf_pace("5s", NULL, NULL, &pace, NULL), 0);
    assert_int_equal(pace.mtbf_ms, 0);
    assert_int_equal(conf_pace("5s", "1h", NULL, &pace, NULL), -1);
    assert_int_equal(conf_pace("automatic", NULL, NULL, &pace, NULL), -1);
    assert_int_equal(conf_pace("auto", NULL, "100", &pace, NULL), -1);
    unsetenv("BELAY_INTERVAL");
    unsetenv("BELAY_MTBF");
}

static void expect_refused(enum conf_key key, const char *option, int code, const char *part)
{
    uint64_t value = 77;
    struct belay_error err = {0};
    assert_int_equal(conf_number(key, option, &value, &err), -1);
    assert_int_equal(err.code, code);
    assert_int_equal(value, 77);
    if (!strstr(err.text, part))
        fail_msg("'%s' is not in: %s", part, err.text);
}

static void test_refusals_name_their_source(void **state)
{
    (void)state;
    expect_refused(CONF_INTERVAL, "0", EINVAL, "--interval 0: refused: leave --interval out");
    expect_refused(CONF_INTERVAL, "0s", EINVAL, "leave --interval out for lines on demand only");
    expect_refused(CONF_INTERVAL, "5x", EINVAL, "--interval 5x: '5x' is not a time");
    expect_refused(CONF_INTERVAL, "1ms", ERANGE, "10ms");
    expect_refused(CONF_INTERVAL, "9999h", ERANGE, "--interval 9999h: more than");
    expect_refused(CONF_MEMORY, "0", EINVAL, "leave --memory out");
    expect_refused(CONF_MEMORY, "5B", ERANGE, "1M");
    expect_refused(CONF_MAX_RESTARTS, "-1", EINVAL, "--max-restarts -1: '-1' is not a whole number");
    expect_refused(CONF_MAX_RESTARTS, "99999999999999999999", ERANGE, "too large");
    expect_refused(CONF_ENCRYPT, "2", EINVAL, "--encrypt 2: '2' is neither 0 nor 1");
    setenv("BELAY_ENCRYPT", "yes", 1);
    expect_refused(CONF_ENCRYPT, NULL, EINVAL, "BELAY_ENCRYPT=yes: 'yes' is neither 0 nor 1");
    setenv("BELAY_INTERVAL", "soon", 1);
    expect_refused(CONF_INTERVAL, NULL, EINVAL, "BELAY_INTERVAL=soon: ");
}

static void test_rows_are_whole(void **state)
{
    (void)state;
    for (int key = CONF_NONE + 1; key < CONF_END; key++) {
        const struct conf_setting *setting = conf_setting(key);
        uint64_t value;
        assert_non_null(setting->name);
        assert_non_null(setting->variable);
        assert_non_null(setting->argument);
        assert_non_null(setting->help);
        assert_int_not_equal(setting->unit, CONF_UNIT_NONE);
        if (setting->unit != CONF_UNIT_TEXT && setting->unit != CONF_UNIT_FOLDER &&
            setting->unit != CONF_UNIT_FILE)
            assert_int_equal(conf_number(key, NULL, &value, NULL), 0);
    }
}

static void test_default_is_that_of_the_table(void **state)
{
    (void)state;
    setenv("BELAY_RETENTION", "7h", 1);
    assert_int_equal(conf_default(CONF_RETENTION), 3600000);
    assert_int_equal(conf_default(CONF_UNDO_LIMIT), 1ull << 30);
    assert_int_equal(conf_default(CONF_MEMORY), 0);
}

/* With its default, if it has one: the page follows the table. */
static void test_man_page_lists_every_variable(void **state)
{
    (void)state;
    static char page[1 << 16];
    FILE *file = fopen(TOP_SRCDIR "/man/belay.1", "r");
    assert_non_null(file);
    page[fread(page, 1, sizeof page - 1, file)] = '\0';
    fclose(file);
    for (int key = CONF_NONE + 1; key < CONF_END; key++) {
        const struct conf_setting *setting = conf_setting(key);
        char title[64], wanted[64], wanted_so[64];
        snprintf(title, sizeof title, "\n.B %s\n", setting->variable);
        char *entry = strstr(page, title), *next = entry ? strstr(entry, "\n.TP") : NULL;
        if (!next)
            fail_msg("man/belay.1 has no entry for %s", setting->variable);
        *next = '\0';
        snprintf(wanted, sizeof wanted, "default %s", setting->fallback ? setting->fallback : "");
        snprintf(wanted_so, sizeof wanted_so, "%s (default)", setting->fallback ? setting->fallback : "");
        if (setting->fallback && !strstr(entry, wanted) && !strstr(entry, wanted_so))
            fail_msg("man/belay.1 does not say that the default of %s is %s", setting->variable,
                     setting->fallback);
        *next = '\n';
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pace),
        cmocka_unit_test_setup(test_precedence, clear_environment),
        cmocka_unit_test_setup(test_absent_is_zero, clear_environment),
        cmocka_unit_test_setup(test_refusals_name_their_source, clear_environment),
        cmocka_unit_test_setup(test_rows_are_whole, clear_environment),
        cmocka_unit_test_setup(test_default_is_that_of_the_table, clear_environment),
        cmocka_unit_test(test_man_page_lists_every_variable),
    };
    return cmocka_run_group_tests_name("conf", tests, NULL, NULL);
}
