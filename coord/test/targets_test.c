/* targets_test.c - the clock table keeps maxima and counts its versions. */
#include "coord/targets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void keeps_the_largest_clock(void **state)
{
    struct targets targets = {0};

    (void)state;
    assert_int_equal(targets_raise(&targets, 7, 3), 0);
    assert_true(targets.is_raised);
    targets_announce(&targets);
    assert_int_equal(targets_raise(&targets, 7, 2), 0);
    assert_false(targets.is_raised);
    assert_int_equal(targets_raise(&targets, 7, 4), 0);
    assert_true(targets.is_raised);
    assert_int_equal(targets.count, 1);
    assert_int_equal(targets.clocks[0].seq, 4);
    targets_destroy(&targets);
}

static void grows_and_finds_every_communicator(void **state)
{
    struct targets targets = {0};

    (void)state;
    for (uint64_t comm = 1; comm <= 5000; comm++)
        assert_int_equal(targets_raise(&targets, comm << 20, comm), 0);
    for (uint64_t comm = 5000; comm >= 1; comm--)
        assert_int_equal(targets_raise(&targets, comm << 20, comm + 1), 0);
    assert_int_equal(targets.count, 5000);
    assert_int_equal(targets_find(&targets, 77ull << 20), 78);
    assert_int_equal(targets_find(&targets, 77), 0);
    for (uint32_t i = 0; i < targets.count; i++)
        assert_int_equal(targets.clocks[i].seq, (targets.clocks[i].comm >> 20) + 1);
    targets_destroy(&targets);
}

static void a_new_line_starts_empty(void **state)
{
    struct targets targets = {0};

    (void)state;
    targets_raise(&targets, 1, 9);
    assert_int_equal(targets_announce(&targets), 1);
    assert_int_equal(targets_announce(&targets), 2);
    targets_reset(&targets);
    assert_int_equal(targets.count, 0);
    assert_int_equal(targets_find(&targets, 1), 0);
    assert_int_equal(targets.version, 0);
    targets_raise(&targets, 1, 2);
    assert_int_equal(targets.clocks[0].seq, 2);
    targets_destroy(&targets);
}

static void members_are_counted(void **state)
{
    struct targets targets = {0};

    (void)state;
    assert_int_equal(targets_index(&targets, 5), TARGETS_NONE);
    for (uint32_t i = 0; i < 3; i++) {
        targets_raise(&targets, 4, 1);
        targets_raise(&targets, 5, i);
        targets_see(&targets, 5, 1, 3);
    }
    assert_int_equal(targets_index(&targets, 5), 1);
    assert_int_equal(targets_index(&targets, 6), TARGETS_NONE);
    assert_int_equal(targets.clocks[1].seen, 3);
    assert_int_equal(targets.clocks[1].size, 3);
    targets_see(&targets, 5, 1, 4); /* of another size: nobody knows */
    assert_int_equal(targets.clocks[1].size, 0);
    targets_reset(&targets);
    targets_raise(&targets, 5, 1);
    assert_int_equal(targets.clocks[0].seen, 0);
    targets_destroy(&targets);
}

static void an_unused_communicator_raises_nothing(void **state)
{
    struct targets targets = {0};

    (void)state;
    targets_raise(&targets, 5, 0);
    assert_false(targets.is_raised);
    targets_destroy(&targets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_largest_clock),
        cmocka_unit_test(grows_and_finds_every_communicator),
        cmocka_unit_test(a_new_line_starts_empty),
        cmocka_unit_test(members_are_counted),
        cmocka_unit_test(an_unused_communicator_raises_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
