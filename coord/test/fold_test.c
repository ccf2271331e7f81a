/* Marks of contributions to parity, at a holder and at a home. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "coord/fold.h"

static void test_each_contribution_counts_once(void **state)
{
    struct fold fold;

    (void)state;
    fold_begin(&fold, 0x5, 7);
    assert_int_equal(fold_offer(&fold, 0, 7), FOLD_TAKE);
    assert_int_equal(fold_offer(&fold, 0, 7), FOLD_AGAIN);
    assert_false(fold_add(&fold, 0, true));
    assert_int_equal(fold_offer(&fold, 0, 7), FOLD_AGAIN);
    assert_int_equal(fold_offer(&fold, 2, 7), FOLD_TAKE);
    assert_true(fold_add(&fold, 2, true));
    assert_false(fold_add(&fold, 2, true)); /* told once */
    assert_int_equal(fold_offer(&fold, 2, 7), FOLD_AGAIN);
}

static void test_a_part_of_a_contribution_spoils_the_sum(void **state)
{
    struct fold fold;

    (void)state;
    fold_begin(&fold, 0x3, 0);
    assert_int_equal(fold_offer(&fold, 0, 0), FOLD_TAKE);
    assert_false(fold_add(&fold, 0, false));
    assert_int_equal(fold_offer(&fold, 0, 0), FOLD_AGAIN);
    assert_int_equal(fold_offer(&fold, 1, 0), FOLD_TAKE);
    assert_false(fold_add(&fold, 1, true));
}

/* One member whose image is new turns all into whole ones. */
static void test_deltas_turn_whole(void **state)
{
    struct fold fold;

    (void)state;
    fold_begin(&fold, 0x7, 7);
    assert_int_equal(fold_offer(&fold, 0, 7), FOLD_TAKE);
    assert_false(fold_add(&fold, 0, true));
    assert_int_equal(fold_offer(&fold, 1, 7), FOLD_TAKE);
    assert_false(fold_turns(&fold, 7));
    assert_true(fold_turns(&fold, 0));
    assert_int_equal(fold_turn_whole(&fold), 0x3);
    assert_false(fold_turns(&fold, 0));
    assert_int_equal(fold_offer(&fold, 0, 7), FOLD_NEED_BASE);
    for (uint32_t position = 0; position < 3; position++) {
        assert_int_equal(fold_offer(&fold, position, 0), FOLD_TAKE);
        assert_int_equal(fold_add(&fold, position, true), position == 2);
    }
    assert_int_equal(fold_offer(&fold, 0, 0), FOLD_AGAIN);
}

static void test_a_delta_to_another_line_is_not_taken(void **state)
{
    struct fold fold;

    (void)state;
    fold_begin(&fold, 0x3, 7);
    assert_int_equal(fold_offer(&fold, 1, 6), FOLD_NEED_BASE);
    assert_int_equal(fold.coming | fold.arrived, 0);
}

static void test_a_home_waits_for_all_holders(void **state)
{
    struct guard_marks marks;

    (void)state;
    guard_begin(&marks, 0x6, true);
    assert_false(guard_is_held(&marks, 1));
    assert_false(guard_is_held(&marks, 1)); /* the same one again */
    assert_true(guard_turn_whole(&marks, 2));
    assert_false(guard_turn_whole(&marks, 2));
    assert_false(guard_turn_whole(&marks, 1)); /* it has its parity */
    assert_true(guard_is_held(&marks, 2));
    assert_false(guard_is_held(&marks, 2));
    guard_begin(&marks, 0x6, false);
    assert_false(guard_turn_whole(&marks, 1)); /* all of it goes anyway */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_contribution_counts_once),
        cmocka_unit_test(test_a_part_of_a_contribution_spoils_the_sum),
        cmocka_unit_test(test_deltas_turn_whole),
        cmocka_unit_test(test_a_delta_to_another_line_is_not_taken),
        cmocka_unit_test(test_a_home_waits_for_all_holders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
