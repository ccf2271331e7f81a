/* mutations_test.c - the test of the test: every broken rule is caught, the rules as they are never are. */
#include "tests/sim/play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SEEDS 60000u /* a mutation has to be caught within so many */

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct world));
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    world_destroy(*state);
    free(*state);
    return 0;
}

/* The number of seeds until the first violation, 0: none. */
static uint64_t seeds_until_caught(struct world *world, enum mutation mutation, uint64_t seeds)
{
    struct counts counts = {0};

    for (uint64_t seed = 0; seed < seeds; seed++)
        if (!play_seed(world, seed, mutation, false, &counts))
            return seed + 1;
    return 0;
}

static void the_rules_as_they_are_hold(void **state)
{
    assert_int_equal(seeds_until_caught(*state, MUTATION_NONE, 2000), 0);
}

static void every_mutation_is_caught(void **state)
{
    struct world *world = *state;

    for (int i = MUTATION_NONE + 1; i < MUTATION_COUNT; i++) {
        uint64_t seeds = seeds_until_caught(world, (enum mutation)i, SEEDS);

        print_message("%-16s caught by seed %ld: %s\n", mutation_name((enum mutation)i), (long)seeds - 1,
                      world->violation);
        assert_true(seeds > 0);
    }
}

static void a_seed_can_be_replayed(void **state)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct counts first = {0}, second = {0};

        play_seed(*state, seed, MUTATION_NONE, false, &first);
        play_seed(*state, seed + 1000, MUTATION_NONE, false, &second);
        second = (struct counts){0};
        play_seed(*state, seed, MUTATION_NONE, false, &second);
        assert_memory_equal(&first, &second, sizeof(first));
    }
}

/* A simulation in which nothing happens would find nothing. */
static void the_seeds_cover_what_matters(void **state)
{
    struct counts counts = {0};

    for (uint64_t seed = 0; seed < 2000; seed++)
        play_seed(*state, seed, MUTATION_NONE, false, &counts);
    assert_true(counts.committed > 2000);
    assert_true(counts.aborted > 200);
    assert_true(counts.restored > 200);
    assert_true(counts.lost_jobs > 0);
    assert_true(counts.lost_jobs < 200);
    assert_true(counts.fetched > 50);
    assert_true(counts.lacking > 50);
    assert_true(counts.spares > 200);
    assert_true(counts.fenced > 50);
    assert_true(counts.failed > 50);
    assert_true(counts.changed > 5);
    assert_true(counts.refused > 5);
    assert_true(counts.unkept > 50);
    assert_true(counts.cuts > 100);
    assert_true(counts.folded > 1000);
    assert_true(counts.twice > 50);
    assert_true(counts.rebuilt > 5);
    assert_true(counts.refilled > 100);
    assert_true(counts.refilled_parts > 100);
    assert_true(counts.opened > 300);
    assert_true(counts.cut_short > 100);
    assert_true(counts.offered > 50);
    assert_true(counts.slow > 20);
    assert_true(counts.stalled > 200);
    assert_true(counts.stalled_ends > 5);
    assert_true(counts.overdue > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_rules_as_they_are_hold, setup, teardown),
        cmocka_unit_test_setup_teardown(every_mutation_is_caught, setup, teardown),
        cmocka_unit_test_setup_teardown(a_seed_can_be_replayed, setup, teardown),
        cmocka_unit_test_setup_teardown(the_seeds_cover_what_matters, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
