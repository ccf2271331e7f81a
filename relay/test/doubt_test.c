/* When a host counts as lost whose kernel acknowledges nothing. */
#include "relay/doubt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "relay/roles.h"

#define LONG (ROLE_UNANSWERED_MS + 1)
#define NOW 1000000

/* The signs at a time of a host of which nothing was heard, and nothing acknowledged, for so long. */
static bool look(struct doubt *doubt, int64_t after_ms, int64_t heard_age_ms, uint32_t ack_age_ms,
                 uint32_t unacked)
{
    return doubt_is_proven(
        doubt, &(struct doubt_signs){NOW + after_ms, NOW + after_ms - heard_age_ms, ack_age_ms, unacked});
}

static void test_a_host_without_power(void **state)
{
    (void)state;
    struct doubt doubt = {0};
    assert_false(look(&doubt, 0, ROLE_UNANSWERED_MS, ROLE_UNANSWERED_MS, 4));
    assert_false(look(&doubt, 1, LONG, LONG, 4));
    assert_false(look(&doubt, ROLE_BEAT_MS, LONG, LONG, 4));
    assert_true(look(&doubt, 1 + ROLE_BEAT_MS, LONG, LONG, 5));
}

static void test_a_process_that_stands_still(void **state)
{
    (void)state;
    struct doubt doubt = {0};
    for (int i = 0; i < 10; i++)
        assert_false(look(&doubt, i * ROLE_BEAT_MS, LONG + i * ROLE_BEAT_MS, 10, 1));
    /* Its receive buffer is full: nothing is on its way, and probes are rare. */
    for (int i = 0; i < 10; i++)
        assert_false(look(&doubt, i * ROLE_BEAT_MS, LONG + i * ROLE_BEAT_MS, LONG, 0));
}

static void test_own_process_has_stood_still(void **state)
{
    (void)state;
    struct doubt doubt = {0};
    assert_false(look(&doubt, 0, 10 * LONG, 10 * LONG, 1));
    assert_false(look(&doubt, ROLE_BEAT_MS, 10, 10, 0));         /* what came meanwhile is read */
    assert_false(look(&doubt, 2 * ROLE_BEAT_MS, LONG, LONG, 1)); /* another doubt begins */
    assert_true(look(&doubt, 3 * ROLE_BEAT_MS, LONG, LONG, 1));
}

static void test_what_is_no_connection(void **state)
{
    (void)state;
    struct doubt doubt = {0};
    assert_false(doubt_look(&doubt, -1, NOW, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_host_without_power),
        cmocka_unit_test(test_a_process_that_stands_still),
        cmocka_unit_test(test_own_process_has_stood_still),
        cmocka_unit_test(test_what_is_no_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
