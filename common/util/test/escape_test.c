/* Texts of others in messages: what is shown as it is, what is escaped, what is left out of long ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/escape.h"

static void assert_shown(const char *text, const char *expected)
{
    char shown[64];
    assert_ptr_equal(escape_text(shown, sizeof shown, text), shown);
    assert_string_equal(shown, expected);
}

static void test_what_is_shown_as_it_is(void **state)
{
    (void)state;
    assert_shown("", "");
    assert_shown("/home/a b/data-1.txt", "/home/a b/data-1.txt");
    assert_shown("/m\xc3\xbcsli/\xe2\x82\xac/\xf0\x9f\x98\x80",
                 "/m\xc3\xbcsli/\xe2\x82\xac/\xf0\x9f\x98\x80");
}

static void test_what_is_escaped(void **state)
{
    (void)state;
    assert_shown("a\nb\tc\x7f", "a\\x0ab\\x09c\\x7f");
    assert_shown("\x1b[31mred", "\\x1b[31mred");
    assert_shown("a\\b", "a\\\\b");
    assert_shown("\xff\xfe", "\\xff\\xfe");
    assert_shown("\xc2\x9b", "\\xc2\\x9b");                   /* a control character of C1 */
    assert_shown("\xc0\xaf", "\\xc0\\xaf");                   /* a form that is too long */
    assert_shown("\xed\xa0\x80", "\\xed\\xa0\\x80");          /* a surrogate */
    assert_shown("\xe2\x80\xae", "\\xe2\\x80\\xae");          /* from right to left */
    assert_shown("\xe2\x80\xa8", "\\xe2\\x80\\xa8");          /* an end of line */
    assert_shown("\xd8\x9c", "\\xd8\\x9c");                   /* a mark of direction */
    assert_shown("\xc2\xa0\x9b", "\xc2\xa0\\x9b");            /* a control character of eight bits */
    assert_shown("\xe2\x82", "\\xe2\\x82");                   /* cut short */
    assert_shown("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* beyond Unicode */
}

static void test_the_middle_of_long_ones_is_left_out(void **state)
{
    (void)state;
    char text[5000], shown[64];
    for (int kind = 0; kind < 3; kind++) {
        static const char *const units[] = {"x", "\n", "\xe2\x82\xac"};
        size_t bytes = strlen(units[kind]);
        for (size_t i = 0; i + bytes < sizeof text; i += bytes)
            memcpy(text + i, units[kind], bytes + 1);
        for (size_t room = 32; room <= sizeof shown; room++) {
            memset(shown, '#', sizeof shown);
            escape_text(shown, room, text);
            assert_true(strlen(shown) < room);
            assert_non_null(strstr(shown, "..."));
        }
    }
    memset(text, 'x', 200);
    strcpy(text + 200, "/end");
    memcpy(text, "/begin", 6);
    escape_text(shown, sizeof shown, text);
    assert_int_equal(strncmp(shown, "/begin", 6), 0);
    assert_string_equal(shown + strlen(shown) - 4, "/end");
}

/* Of a message the end is left out, and names in it that are escaped stay as they are. */
static void test_room_is_kept_to(void **state)
{
    (void)state;
    char to[8];
    memset(to, 'x', sizeof to);
    assert_int_equal(escape_line(to, 6, "ab\033cd"), 2); /* not half of what stands for a byte */
    assert_string_equal(to, "ab");
    assert_int_equal(to[6], 'x');
    assert_int_equal(escape_line(to, 6, "\xe2\x82\xac\xe2\x82\xac"), 3);
    assert_int_equal(escape_line(to, 1, "abc"), 0);
    assert_string_equal(to, "");
}

static void test_made_valid(void **state)
{
    (void)state;
    char text[] = "caf\xe9 \xc3\xa9\xc3 \033";
    escape_make_valid(text);
    assert_string_equal(text, "caf? \xc3\xa9? \033");
}

/* Whatever comes, what goes out is of harmless characters only, and says the same as a stream gets. */
static void test_any_bytes(void **state)
{
    (void)state;
    uint64_t seed = 20240229;
    for (int round = 0; round < 20000; round++) {
        char from[24], to[4 * sizeof from], again[4 * sizeof from], *printed = NULL;
        size_t printed_bytes = 0, length = (size_t)(seed >> 33) % (sizeof from - 1);
        for (size_t i = 0; i < length; i++) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            from[i] = (char)(seed >> 40 ? seed >> 40 : 1);
        }
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        from[length] = '\0';
        escape_line(to, sizeof to, from);
        for (const char *at = to; *at; at++)
            assert_false((unsigned char)*at < ' ' || *at == 0x7f);
        escape_line(again, sizeof again, to);
        assert_string_equal(again, to);
        FILE *stream = open_memstream(&printed, &printed_bytes);
        escape_print(stream, from);
        fclose(stream);
        assert_string_equal(printed, to);
        free(printed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_shown_as_it_is),
        cmocka_unit_test(test_what_is_escaped),
        cmocka_unit_test(test_the_middle_of_long_ones_is_left_out),
        cmocka_unit_test(test_room_is_kept_to),
        cmocka_unit_test(test_made_valid),
        cmocka_unit_test(test_any_bytes),
    };
    return cmocka_run_group_tests_name("escape", tests, NULL, NULL);
}
