/* lost_files_test.c - whose files are lost with a node: noted over several epochs, until files are put back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node-agent/job/lost_files.h"

static const uint64_t devices[] = {3, 57};

/* Four ranks; `members` and the places of the ranks among them. */
static struct epoch_start *make_epoch(uint32_t count, const uint32_t *members, const uint32_t placement[4])
{
    struct epoch_start *start = epoch_start_create(count, 4);
    for (uint32_t i = 0; i < count; i++)
        start->members[i] = members[i];
    for (uint32_t rank = 0; rank < 4; rank++)
        start->placement[rank] = placement[rank];
    return start;
}

static void test_ranks_of_lost_nodes(void **state)
{
    (void)state;
    struct lost_files lost = {0};
    struct epoch_start *first = make_epoch(3, (uint32_t[]){0, 1, 4}, (uint32_t[]){0, 1, 2, 1});
    struct epoch_start *second = make_epoch(2, (uint32_t[]){0, 4}, (uint32_t[]){0, 0, 1, 1});
    struct epoch_start *third = make_epoch(1, (uint32_t[]){0}, (uint32_t[]){0, 0, 0, 0});
    lost_files_note(&lost, NULL, first, devices, 2);
    lost_files_note(&lost, first, first, devices, 2);
    assert_null(lost.is_lost);
    lost_files_note(&lost, first, second, devices, 2);
    assert_non_null(lost.is_lost);
    assert_false(lost.is_lost[0] || lost.is_lost[2]);
    assert_true(lost.is_lost[1] && lost.is_lost[3]);
    lost_files_note(&lost, second, third, NULL, 0); /* nothing was put back yet */
    assert_false(lost.is_lost[0]);
    assert_true(lost.is_lost[1] && lost.is_lost[2] && lost.is_lost[3]);
    assert_int_equal(lost.device_count, 2);
    assert_int_equal(lost.devices[1], 57);
    struct lost_files copy = lost_files_copy(&lost);
    lost_files_release(&lost);
    assert_null(lost.is_lost);
    assert_true(copy.rank_count == 4 && copy.is_lost[3] && !copy.is_lost[0] && copy.devices[0] == 3);
    lost_files_release(&copy);
    free(first);
    free(second);
    free(third);
}

static void test_a_placement_that_is_not_known(void **state)
{
    (void)state;
    struct lost_files lost = {0};
    const uint32_t nowhere = UINT32_MAX;
    struct epoch_start *first = make_epoch(2, (uint32_t[]){0, 1}, (uint32_t[]){nowhere, nowhere, 2, 1});
    struct epoch_start *second = make_epoch(1, (uint32_t[]){0}, (uint32_t[]){0, 0, 0, 0});
    lost_files_note(&lost, first, second, NULL, 0);
    assert_non_null(lost.is_lost);
    assert_false(lost.is_lost[0] || lost.is_lost[1] || lost.is_lost[2]);
    assert_true(lost.is_lost[3]);
    lost_files_release(&lost);
    free(first);
    free(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_of_lost_nodes),
        cmocka_unit_test(test_a_placement_that_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
