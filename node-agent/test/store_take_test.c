/* store_take_test.c - images that were fetched: beside those of the committed line, or in the place of
 * another line; all of them or none; after a crash as before. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "node-agent/test/store_parts.h"

#define RANKS 2u

static struct store_fetched fetched_of(uint64_t line, uint32_t rank)
{
    return (struct store_fetched){.rank = rank, .fd = parts_image(line, rank), .bytes = BYTES};
}

/* Of a node that had no part in the job before. */
static void test_first_images(void **state)
{
    (void)state;
    struct store *store = store_create(parts_keeper, "job", NULL);
    const struct store_fetched fetched[] = {fetched_of(7, 1)};
    assert_int_equal(store_take_images(store, 7, RANKS, fetched, 1, NULL), 0);
    assert_int_equal(store_committed_line(store), 7);
    assert_int_equal(store_ranks(store), RANKS);
    assert_int_equal(store_image_line(store, 1), 7);
    assert_int_equal(store_image_line(store, 0), 0);
    assert_int_equal(store_held_bytes(store), BYTES);
    store_destroy(store, false);
    store = parts_adopt(1u << 7); /* the agent was killed */
    assert_int_equal(store_committed_line(store), 7);
    assert_int_equal(parts_line(store_image(store, 1)), 7);
    assert_int_equal(store_image(store, 0), -1);
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

/* A delta is applied to it as to any other. */
static void test_beside_others(void **state)
{
    (void)state;
    struct commit_entry entry = {.line = 3}, next = {.line = 4};
    struct store *store = store_create(parts_keeper, "job", NULL);
    const struct store_item item = {
        .rank = 0, .ranks = RANKS, .here = 1, .fd = parts_image(3, 0), .bytes = BYTES, .image_bytes = BYTES};
    assert_int_equal(store_stage(store, 3, &item, NULL), 0);
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    const struct store_fetched fetched[] = {fetched_of(3, 1)};
    assert_int_equal(store_take_images(store, 3, RANKS, fetched, 1, NULL), 0);
    assert_int_equal(parts_line(store_image(store, 0)), 3);
    assert_int_equal(parts_line(store_image(store, 1)), 3);
    parts_stage_delta(store, 4, 3, 0);
    parts_stage_delta(store, 4, 3, 1);
    assert_int_equal(store_commit(store, &next, NULL), 0);
    assert_int_equal(store_apply_rest(store, NULL), 0);
    parts_expect_applied(store_image(store, 1), 3, 4);
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

static int stage_delta(struct store *store, uint64_t line, uint64_t base_line)
{
    const struct store_item item = {.rank = 1,
                                    .ranks = RANKS,
                                    .here = 1,
                                    .fd = parts_delta(line, base_line, 1),
                                    .bytes = BYTES,
                                    .base_line = base_line,
                                    .image_bytes = BYTES};
    return store_stage(store, line, &item, NULL);
}

/* A line is captured while it comes: staged, and committed when it is here. It counts as held all the while.
 */
static void test_an_image_that_is_expected(void **state)
{
    (void)state;
    struct commit_entry entry = {.line = 8};
    struct store *store = store_create(parts_keeper, "job", NULL);
    assert_int_equal(stage_delta(store, 8, 7), -1);
    store_expect(store, 7, BYTES);
    store_expect(store, 7, BYTES);
    assert_int_equal(store_room(store, 3 * BYTES), BYTES);
    assert_int_equal(stage_delta(store, 8, 6), -1);
    assert_int_equal(stage_delta(store, 8, 7), 0);
    assert_int_equal(store_image_line(store, 1), 0);
    store_expect_no_more(store, BYTES);
    assert_int_equal(store_room(store, 3 * BYTES), BYTES); /* of one, and of the delta */
    const struct store_fetched fetched[] = {fetched_of(7, 1)};
    assert_int_equal(store_take_images(store, 7, RANKS, fetched, 1, NULL), 0);
    store_expect_no_more(store, BYTES);
    assert_int_equal(store_staged_line(store), 8);
    assert_int_equal(store_committed_line(store), 7);
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_int_equal(store_apply_rest(store, NULL), 0);
    parts_expect_applied(store_image(store, 1), 7, 8);
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

/* The agent is killed before it is here: what is staged is of no use, and dropped. */
static void test_an_image_that_never_came(void **state)
{
    (void)state;
    struct store *store = store_create(parts_keeper, "job", NULL);
    parts_commit(store, 2);
    store_drop_images(store);
    store_expect(store, 7, BYTES);
    assert_int_equal(stage_delta(store, 8, 7), 0);
    store_destroy(store, false);
    store = parts_adopt(1u << 8);
    assert_int_equal(store_staged_line(store), 0);
    assert_int_equal(store_image_line(store, 1), 0);
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

static void test_in_the_place_of_a_damaged_image(void **state)
{
    (void)state;
    struct store *store = store_create(parts_keeper, "job", NULL);
    parts_commit(store, 2);
    unsigned held = parts_held();
    store_note_damage(store, 1);
    assert_int_equal(store_image_line(store, 1), 0);
    const struct store_fetched fetched[] = {fetched_of(2, 1)};
    assert_int_equal(store_take_images(store, 2, RANKS, fetched, 1, NULL), 0);
    assert_int_equal(store_image_line(store, 1), 2);
    assert_int_equal(parts_held(), held);
    assert_false(store_is_damaged(store, 1));
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

static void test_in_the_place_of_another_line(void **state)
{
    (void)state;
    struct store *store = store_create(parts_keeper, "job", NULL);
    parts_commit(store, 2);
    const struct store_fetched fetched[] = {fetched_of(5, 0)};
    assert_int_equal(store_take_images(store, 5, RANKS, fetched, 1, NULL), 0);
    assert_int_equal(store_committed_line(store), 5);
    assert_int_equal(store_image_line(store, 1), 0);
    assert_int_equal(commits_newest(store_commits(store))->line, 5);
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

/* Its home may be lost before the line is committed: a verdict may choose it, and the rank moves. */
static void test_tables_tell_the_size_of_their_image(void **state)
{
    (void)state;
    struct commit_entry entry = {.line = 3};
    struct store *store = store_create(parts_keeper, "job", NULL);
    const struct store_guest tables = {.rank = store_tables_part(RANKS, 1),
                                       .ranks = RANKS,
                                       .here = STORE_NOBODY_HERE,
                                       .fd = parts_image(3, 1)};
    assert_int_equal(store_stage_guest(store, 3, &tables, NULL), 0);
    for (int is_committed = 0; is_committed < 2; is_committed++) {
        struct rank_size sizes[RANKS] = {{0}};
        struct epoch_memory memory;
        assert_int_equal(store_held_ranks(store), RANKS);
        store_tell_memory(store, 0, &memory, sizes);
        assert_int_equal(sizes[0].image_bytes, 0);
        assert_true(sizes[1].image_bytes >= 4 * PAGE); /* four pages, which are not here */
        if (!is_committed)
            assert_int_equal(store_commit(store, &entry, NULL), 0);
    }
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

/* The second one is here already: the first is not taken either, and stays the caller's. */
static void test_all_or_none(void **state)
{
    (void)state;
    struct belay_error err;
    struct commit_entry entry = {.line = 3};
    struct store *store = store_create(parts_keeper, "job", NULL);
    const struct store_item item = {
        .rank = 1, .ranks = RANKS, .here = 1, .fd = parts_image(3, 1), .bytes = BYTES, .image_bytes = BYTES};
    assert_int_equal(store_stage(store, 3, &item, NULL), 0);
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    unsigned held = parts_held();
    const struct store_fetched fetched[] = {fetched_of(3, 0), fetched_of(3, 1)};
    assert_int_equal(store_take_images(store, 3, RANKS, fetched, 2, &err), -1);
    assert_int_equal(err.code, EINVAL);
    assert_int_equal(store_image_line(store, 0), 0);
    assert_int_equal(parts_line(store_image(store, 1)), 3);
    assert_int_equal(parts_held(), held);
    assert_int_equal(store_take_images(store, 3, RANKS + 1, fetched, 1, &err), -1);
    assert_int_equal(store_take_images(store, 4, RANKS,
                                       (const struct store_fetched[]){{.rank = STORE_PARTS * RANKS}}, 1,
                                       &err),
                     -1);
    assert_int_equal(store_committed_line(store), 3);
    close(fetched[0].fd);
    close(fetched[1].fd);
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_first_images),
        EACH(test_beside_others),
        EACH(test_an_image_that_is_expected),
        EACH(test_an_image_that_never_came),
        EACH(test_in_the_place_of_a_damaged_image),
        EACH(test_in_the_place_of_another_line),
        EACH(test_tables_tell_the_size_of_their_image),
        EACH(test_all_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
