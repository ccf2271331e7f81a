/* budget_test.c - what is left of the memory of members: each one's own, and what machines have in common. */
#include "coord/budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct burden none = {.member = EPOCH_NOBODY};

static struct epoch_memory memory_of(uint64_t limit, uint64_t left, uint64_t machine)
{
    return (struct epoch_memory){
        .is_known = true, .limit_bytes = limit, .machine_bytes = left, .machine = machine};
}

static bool fits(const struct budget *budget, uint32_t member, uint64_t images, uint64_t memory)
{
    return budget_fits(
        budget, &(struct burden){.member = member, .image_bytes = images, .memory_bytes = memory}, &none);
}

static void a_member_that_tells_nothing_has_no_limit(void **state)
{
    (void)state;
    struct budget *budget = budget_create(2);
    struct burden all = {.image_bytes = UINT64_MAX, .memory_bytes = UINT64_MAX};

    assert_non_null(budget);
    budget_charge(budget, &all);
    assert_true(budget_fits(budget, &all, &all));
    budget_set(budget, 0, &(struct epoch_memory){0});
    assert_true(budget_fits(budget, &all, &all));
    budget_destroy(budget);
    budget_destroy(NULL);
}

static void both_bounds_count(void **state)
{
    (void)state;
    struct budget *budget = budget_create(1);
    struct epoch_memory memory = memory_of(10, 15, 1);

    budget_set(budget, 0, &memory);
    assert_true(fits(budget, 0, 10, 5));
    assert_false(fits(budget, 0, 11, 0));
    assert_false(fits(budget, 0, 10, 6));
    assert_false(fits(budget, 0, 10, UINT64_MAX));
    budget_charge(budget, &(struct burden){.image_bytes = 4, .memory_bytes = 4});
    assert_true(fits(budget, 0, 6, 1));
    assert_false(fits(budget, 0, 7, 0));
    assert_false(fits(budget, 0, 6, 2));
    budget_charge(budget, &(struct burden){.image_bytes = 100});
    assert_true(fits(budget, 0, 0, 0));
    assert_false(fits(budget, 0, 0, 1));
    budget_set(budget, 0, &memory); /* as if nothing had been used */
    assert_true(fits(budget, 0, 10, 5));
    budget_destroy(budget);
}

/* The least that is told counts; a limit is each member's own. */
static void members_of_a_machine_share_it(void **state)
{
    (void)state;
    struct budget *budget = budget_create(3);
    const struct epoch_memory memory[] = {memory_of(UINT64_MAX, 30, 7), memory_of(5, 30, 8),
                                          memory_of(10, 20, 7)};
    const struct burden one = {.member = 0, .memory_bytes = 8}, other = {.member = 2, .image_bytes = 8};

    for (uint32_t i = 0; i < 3; i++)
        budget_set(budget, i, &memory[i]);
    assert_false(fits(budget, 0, 0, 21));
    assert_true(budget_fits(budget, &one, &other));
    budget_charge(budget, &one);
    assert_true(fits(budget, 2, 10, 2));
    assert_false(fits(budget, 2, 10, 3));
    assert_false(budget_fits(budget, &one, &other)); /* 16 of 12 */
    assert_true(fits(budget, 1, 5, 25));
    budget_destroy(budget);
}

/* A rank and its copy, at the same place. */
static void two_burdens_of_one_member_add_up(void **state)
{
    (void)state;
    struct budget *budget = budget_create(1);
    const struct epoch_memory memory = memory_of(10, UINT64_MAX, 1);
    const struct burden half = {.image_bytes = 5}, more = {.image_bytes = 6};

    budget_set(budget, 0, &memory);
    assert_true(budget_fits(budget, &half, &half));
    assert_false(budget_fits(budget, &half, &more));
    budget_destroy(budget);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_that_tells_nothing_has_no_limit),
        cmocka_unit_test(both_bounds_count),
        cmocka_unit_test(members_of_a_machine_share_it),
        cmocka_unit_test(two_burdens_of_one_member_add_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
