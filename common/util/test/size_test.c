/* Sizes: every accepted form, every refusal, and back to text. */
#include "common/util/size.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct accepted {
    const char *text;
    uint64_t bytes;
};

static void test_accepted(void **state)
{
    (void)state;
    static const struct accepted table[] = {
        {"512", 512ull << 20},
        {"4G", 4ull << 30},
        {"4g", 4ull << 30},
        {"4GB", 4ull << 30},
        {"4GiB", 4ull << 30},
        {"1T", 1ull << 40},
        {"64K", 64ull << 10},
        {"100B", 100},
        {"0", 0},
        {"8388607T", 8388607ull << 40},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        uint64_t bytes = 1;
        struct belay_error err = {0};
        if (size_parse(table[i].text, &bytes, &err))
            fail_msg("%s: %s", table[i].text, err.text);
        if (bytes != table[i].bytes)
            fail_msg("%s: %llu bytes", table[i].text, (unsigned long long)bytes);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const table[] = {"",   "G",   "-1G",  "+1G", "1.5G", "1 G",
                                        "1X", "1GX", "1GBB", "1BB", "0x1G"};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        uint64_t bytes = 77;
        struct belay_error err = {0};
        if (size_parse(table[i], &bytes, &err) != -1)
            fail_msg("'%s' was taken", table[i]);
        assert_int_equal(err.code, EINVAL);
        assert_int_equal(bytes, 77);
    }
    static const char *const large[] = {"8388608T", "99999999999999999999B", "18446744073709551615"};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        uint64_t bytes = 77;
        struct belay_error err = {0};
        assert_int_equal(size_parse(large[i], &bytes, &err), -1);
        assert_int_equal(err.code, ERANGE);
    }
}

static void test_format(void **state)
{
    (void)state;
    char text[SIZE_TEXT_BYTES];
    assert_string_equal(size_format(0, text), "0B");
    assert_string_equal(size_format(1500, text), "1500B");
    assert_string_equal(size_format(512ull << 20, text), "512M");
    assert_string_equal(size_format(4096ull << 40, text), "4096T");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_format),
    };
    return cmocka_run_group_tests_name("size", tests, NULL, NULL);
}
