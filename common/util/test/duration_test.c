/* Times: every accepted form, every refusal, and back to text. */
#include "common/util/duration.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct accepted {
    const char *text;
    uint64_t ms;
};

static void test_accepted(void **state)
{
    (void)state;
    static const struct accepted table[] = {
        {"500ms", 500},
        {"10s", 10000},
        {"5m", 300000},
        {"2h", 7200000},
        {"0", 0},
        {"0s", 0},
        {"1", 60000},
        {"90", 5400000},
        {"1:30", 90000},
        {"1:90", 150000},
        {"2:00:01", 7201000},
        {"1-0", 86400000},
        {"1-2", 93600000},
        {"1-2:30", 95400000},
        {"1-2:30:15", 95415000},
        {"0-0:0:1", 1000},
        {"0010s", 10000},
        {"9223372036854775807ms", INT64_MAX},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        uint64_t ms = 1;
        struct belay_error err = {0};
        if (duration_parse(table[i].text, &ms, &err))
            fail_msg("%s: %s", table[i].text, err.text);
        if (ms != table[i].ms)
            fail_msg("%s: %llu ms", table[i].text, (unsigned long long)ms);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const table[] = {
        "",     "s",     "-5s", "-5",      "+5s",  " 5s", "5 s",   "5s ",       "5x",       "5sec",
        "1.5s", "1:",    ":1",  "1:2:3:4", "1-",   "-1",  "1-2-3", "1-2:3:4:5", "1:2s",     "10S",
        "5d",   "0x10s", "ten", "1::2",    "1-:2", "ms",  "5mss",  "1:-2",      "infinite",
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        uint64_t ms = 77;
        struct belay_error err = {0};
        if (duration_parse(table[i], &ms, &err) != -1)
            fail_msg("'%s' was taken as %llu ms", table[i], (unsigned long long)ms);
        assert_int_equal(err.code, EINVAL);
        assert_null(strchr(err.text, '\n'));
        assert_int_equal(ms, 77);
    }
}

static void test_too_long(void **state)
{
    (void)state;
    static const char *const table[] = {
        "9223372036854775808ms",      "99999999999999999999999999s", "18446744073709551616ms",
        "18446744073709551617",       "2562047788015216h",           "106751991168-0",
        "99999999999999999999-0:0:1",
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        uint64_t ms = 77;
        struct belay_error err = {0};
        if (duration_parse(table[i], &ms, &err) != -1)
            fail_msg("'%s' was taken as %llu ms", table[i], (unsigned long long)ms);
        assert_int_equal(err.code, ERANGE);
        assert_int_equal(ms, 77);
    }
}

static void test_format(void **state)
{
    (void)state;
    static const struct accepted table[] = {
        {"0ms", 0}, {"1ms", 1}, {"1500ms", 1500}, {"90s", 90000}, {"5m", 300000}, {"24h", 86400000},
    };
    char text[DURATION_TEXT_BYTES];
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        assert_string_equal(duration_format(table[i].ms, text), table[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_format),
    };
    return cmocka_run_group_tests_name("duration", tests, NULL, NULL);
}
