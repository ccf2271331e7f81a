/* comeback_test.c - when lost nodes are looked for again. */
#include "cmd/comeback.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define LONGEST_MS 600000

static void nobody_is_looked_for_at_first(void **state)
{
    struct comeback comeback = {0};

    (void)state;
    assert_int_equal(comeback_due(&comeback, INT64_MAX), 0);
    assert_int_equal(comeback_next_ms(&comeback), 0);
}

static void pauses_grow_up_to_a_limit(void **state)
{
    struct comeback comeback = {0};
    int64_t now_ms = 1000, pause_ms = 10000;

    (void)state;
    comeback_expect(&comeback, 2, now_ms, pause_ms);
    for (int attempt = 0; attempt < 20; attempt++) {
        assert_int_equal(comeback_next_ms(&comeback), now_ms + pause_ms);
        assert_int_equal(comeback_due(&comeback, now_ms + pause_ms - 1), 0);
        now_ms += pause_ms;
        assert_int_equal(comeback_due(&comeback, now_ms), 2);
        comeback_postpone(&comeback, 2, now_ms);
        pause_ms = 2 * pause_ms < LONGEST_MS ? 2 * pause_ms : LONGEST_MS;
    }
    assert_int_equal(pause_ms, LONGEST_MS);
}

static void another_launch_changes_no_time(void **state)
{
    struct comeback comeback = {0};

    (void)state;
    comeback_expect(&comeback, 1, 1000, 100);
    comeback_expect(&comeback, 1, 1050, 100);
    assert_int_equal(comeback_next_ms(&comeback), 1100);
}

static void the_one_that_has_waited_longest_is_first(void **state)
{
    struct comeback comeback = {0};

    (void)state;
    comeback_expect(&comeback, 1, 1000, 100);
    comeback_expect(&comeback, 3, 900, 100);
    assert_int_equal(comeback_due(&comeback, 2000), 3);
    comeback_forget(&comeback, 3);
    assert_int_equal(comeback_due(&comeback, 2000), 1);
    comeback_forget(&comeback, 1);
    assert_int_equal(comeback_due(&comeback, 2000), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_looked_for_at_first),
        cmocka_unit_test(pauses_grow_up_to_a_limit),
        cmocka_unit_test(another_launch_changes_no_time),
        cmocka_unit_test(the_one_that_has_waited_longest_is_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
