/* store_adopt_test.c - what an agent that was killed has left is taken up by the next one, or dropped. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fault/fault.h"
#include "common/image/layout.h"
#include "node-agent/test/store_parts.h"

/* A protected line outlives its abort; the next epoch's verdict commits it. */
static void test_a_protected_line_is_rolled_forward_to(void **state)
{
    (void)state;
    struct commit_entry entry = {.line = 2};
    struct store *store = store_create(parts_keeper, "job", NULL);
    parts_commit(store, 1);
    parts_stage_delta(store, 2, 1, 0);
    parts_stage_delta(store, 2, 1, 1);
    store_abort(store, &entry, true);
    assert_int_equal(store_staged_line(store), 2);
    assert_int_equal(store_newest_line(store), 2);
    assert_int_equal(store_committed_line(store), 1);
    assert_int_equal(parts_holding(store, 1).image_line, 1);
    assert_int_equal(parts_holding(store, 1).staging_line, 2);
    assert_int_equal(parts_holding(store, 1).base_line, 1);
    assert_int_equal(store_settle(store, 2, NULL), 0);
    assert_int_equal(store_committed_line(store), 2);
    assert_int_equal(store_staged_line(store), 0);
    parts_expect_applied(store_image(store, 0), 1, 2);
    parts_expect_applied(store_image(store, 1), 1, 2);
    assert_int_equal(commits_newest(store_commits(store))->line, 2);
    assert_int_equal(parts_held(), 3);
    store_destroy(store, true);
}

/* The verdict may be another one, and the next capture writes over what is staged. */
static void test_a_protected_line_is_given_up(void **state)
{
    (void)state;
    struct commit_entry entry = {.line = 2};
    struct store *store = store_create(parts_keeper, "job", NULL);
    parts_commit(store, 1);
    for (int is_settled = 0; is_settled < 2; is_settled++) {
        parts_stage_delta(store, entry.line, 1, 0);
        parts_stage_delta(store, entry.line, 1, 1);
        store_abort(store, &entry, true);
        assert_int_equal(parts_held(), 5);
        if (is_settled)
            assert_int_equal(store_settle(store, 1, NULL), 0);
        else
            store_drop_staging(store);
        assert_int_equal(store_newest_line(store), 1);
        assert_int_equal(parts_holding(store, 0).staging_line, 0);
        assert_int_equal(parts_held(), 3);
        entry.line++;
    }
    store_destroy(store, true);
}

/* A line that is staged in part, or is not there at all, cannot be gone on from, and nothing is dropped. */
static void test_what_is_not_whole_is_not_settled(void **state)
{
    (void)state;
    struct store *store = store_create(parts_keeper, "job", NULL);
    parts_commit(store, 1);
    parts_stage_delta(store, 2, 1, 0);
    assert_int_equal(store_settle(store, 2, NULL), -1);
    assert_int_equal(store_settle(store, 3, NULL), -1);
    assert_int_equal(store_staged_line(store), 2);
    assert_int_equal(store_committed_line(store), 1);
    store_destroy(store, true);
}

/* An agent is killed when a line is protected: the first one of whole images, another one of deltas. */
static void test_a_protected_line_is_adopted(void **state)
{
    (void)state;
    for (uint64_t line = 1; line <= 2; line++) {
        struct store *store = store_create(parts_keeper, "job", NULL);
        if (line == 2)
            parts_commit(store, 1);
        for (uint32_t rank = 0; rank < 2; rank++)
            line == 1 ? parts_stage(store, 1, rank) : parts_stage_delta(store, 2, 1, rank);
        uint64_t held_bytes = store_held_bytes(store);
        store_destroy(store, false);
        store = parts_adopt_protected(line, line == 1 ? 1 << 1 : 1 << 1 | 1 << 2);
        assert_int_equal(store_adopt_done(store, NULL), 0);
        assert_int_equal(store_committed_line(store), line - 1);
        assert_int_equal(store_newest_line(store), line);
        assert_int_equal(parts_holding(store, 1).staging_line, line);
        assert_int_equal(parts_holding(store, 1).base_line, line - 1);
        assert_true(store_held_bytes(store) >= held_bytes);
        assert_int_equal(store_settle(store, line, NULL), 0);
        assert_int_equal(store_committed_line(store), line);
        assert_int_equal(parts_line(store_image(store, 1)), line);
        assert_int_equal(parts_held(), 3);
        store_destroy(store, true);
        assert_int_equal(parts_held(), 0);
    }
}

/* Of a line that no record protects, or that is not whole, nothing is kept. */
static void test_what_is_not_protected_is_not_adopted(void **state)
{
    (void)state;
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        struct store *store = store_create(parts_keeper, "job", NULL);
        parts_commit(store, 1);
        parts_stage_delta(store, 2, 1, 0);
        if (is_whole)
            parts_stage_delta(store, 2, 1, 1);
        store_destroy(store, false);
        store = parts_adopt_protected(is_whole ? 3 : 2, 1 << 1 | 1 << 2);
        assert_int_equal(store_adopt_done(store, NULL), 0);
        assert_int_equal(store_newest_line(store), 1);
        assert_int_equal(parts_held(), 3);
        store_destroy(store, true);
    }
}

static void test_adoption(void **state)
{
    (void)state;
    struct store *store = store_create(parts_keeper, "job", NULL);
    parts_commit(store, 1);
    parts_stage(store, 2, 0); /* an agent that is killed here leaves a staged image of line 2 */
    parts_stage(store, 2, 1);
    store_destroy(store, false);
    store = parts_adopt(1 << 1 | 1 << 2);
    assert_int_equal(store_adopt_done(store, NULL), 0);
    assert_int_equal(store_committed_line(store), 1);
    assert_int_equal(store_ranks(store), 2);
    assert_int_equal(parts_line(store_image(store, 0)), 1);
    assert_int_equal(parts_held(), 3);
    parts_commit(store, 5); /* and life goes on */
    assert_int_equal(store_committed_line(store), 5);
    keeper_drop(parts_keeper, "job/image/5/1", NULL);
    store_destroy(store, false);
    store = parts_adopt(1 << 5); /* not whole: nothing of it counts */
    assert_int_equal(store_adopt_done(store, NULL), -1);
    assert_true(parts_held() > 0); /* whether it is dropped is for the caller to say */
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

/* An agent that is killed before, amid or after the apply; the next one gets to the same end. */
static void test_apply_is_taken_up(void **state)
{
    (void)state;
    for (int step = 0; step < 4; step++) {
        struct commit_entry entry = {.line = 2};
        struct apply apply;
        struct store *store = store_create(parts_keeper, "job", NULL);
        parts_commit(store, 1);
        parts_stage_delta(store, 2, 1, 0);
        parts_stage_delta(store, 2, 1, 1);
        assert_int_equal(store_commit(store, &entry, NULL), 0);
        assert_true(store_apply_begin(store, 0, &apply));
        if (step == 1) /* tables half written */
            assert_int_equal(pwrite(apply.image, "torn", 4, PAGE), 4);
        if (step >= 2)
            assert_int_equal(apply_delta(&apply, NULL), 0);
        if (step == 3)
            assert_int_equal(store_apply_end(store, &apply, NULL), 0);
        store_destroy(store, false);
        store = parts_adopt(1 << 1 | 1 << 2);
        assert_int_equal(store_adopt_done(store, NULL), 0);
        assert_int_equal(store_committed_line(store), 2);
        parts_expect_applied(store_image(store, 0), 1, 2);
        parts_expect_applied(store_image(store, 1), 1, 2);
        assert_int_equal(parts_held(), 3);
        store_destroy(store, true);
        assert_int_equal(parts_held(), 0);
    }
}

/* By the next agent as well; what is damaged is not gone on from, and the other ranks' images stay. */
static void expect_damage(struct store *store, uint32_t images)
{
    struct store_damage damage;
    assert_int_equal(store_verify(store, &damage, NULL), 0);
    assert_int_equal(damage.images, images);
    if (images == 0)
        return;
    assert_int_equal(damage.first.code, EBADMSG);
    assert_non_null(strstr(damage.first.text, "rank 1"));
    assert_int_equal(store_image(store, 1), -1);
    assert_int_equal(parts_holding(store, 0).image_line, 2);
    assert_int_equal(parts_holding(store, 1).image_line, 0);
}

/* Line 2, whose deltas have not been applied. */
static struct store *commit_deltas(void)
{
    struct store *store = store_create(parts_keeper, "job", NULL);
    struct commit_entry entry = {.line = 2};
    parts_commit(store, 1);
    parts_stage_delta(store, 2, 1, 0);
    parts_stage_delta(store, 2, 1, 1);
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    return store;
}

static void test_damaged_images_are_not_held(void **state)
{
    (void)state;
    struct store *store = commit_deltas();
    expect_damage(store, 0);
    assert_int_equal(pwrite(store_image(store, 1), "x", 1, (off_t)image_offset(UPPER_BASE + 3 * PAGE) + 7),
                     1);
    store_destroy(store, false);
    store = parts_adopt(1 << 2);
    assert_int_equal(store_adopt_done(store, NULL), 0);
    expect_damage(store, 1);
    expect_damage(store, 0);
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

/* In a page, which is found in the image that it is applied to, or in the tables, which cannot be applied. */
static void test_images_of_damaged_deltas_are_not_held(void **state)
{
    (void)state;
    for (int is_in_tables = 0; is_in_tables < 2; is_in_tables++) {
        struct store *store = commit_deltas();
        struct apply apply;
        struct image_view view;
        assert_true(store_apply_begin(store, 1, &apply));
        assert_int_equal(image_load(apply.delta, &view, NULL), 0);
        fault_flip(apply.delta,
                   is_in_tables ? view.header->tables_offset + view.header->sum_offset : PAGE + 7);
        image_unload(&view);
        expect_damage(store, 1);
        store_destroy(store, true);
        assert_int_equal(parts_held(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_a_protected_line_is_rolled_forward_to),
        EACH(test_a_protected_line_is_given_up),
        EACH(test_what_is_not_whole_is_not_settled),
        EACH(test_a_protected_line_is_adopted),
        EACH(test_what_is_not_protected_is_not_adopted),
        EACH(test_adoption),
        EACH(test_apply_is_taken_up),
        EACH(test_damaged_images_are_not_held),
        EACH(test_images_of_damaged_deltas_are_not_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
