/* store_test.c - staging becomes the images at once or not at all, and the record says which. */
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

#include "common/image/root.h"
#include "common/image/layout.h"
#include "node-agent/test/store_parts.h"

static void test_commit_and_abort(void **state)
{
    (void)state;
    struct commit_entry entry = {.line = 3};
    struct store *store = store_create(parts_keeper, "job", NULL);
    assert_int_equal(store_committed_line(store), 0);
    assert_int_equal(store_image(store, 0), -1);
    parts_commit(store, 1);
    parts_commit(store, 2);
    assert_int_equal(store_committed_line(store), 2);
    assert_int_equal(parts_line(store_image(store, 1)), 2);
    assert_int_equal(parts_held(), 3); /* two images and the record: line 1 is forgotten */
    parts_stage(store, 3, 0);
    assert_int_equal(store_held_bytes(store), 3 * BYTES);
    assert_int_equal(store_commit(store, &entry, NULL), -1); /* rank 1's image is missing */
    assert_int_equal(store_committed_line(store), 2);
    strcpy(entry.reason, "for a test");
    store_abort(store, &entry, false);
    assert_int_equal(store_held_bytes(store), 2 * BYTES);
    assert_int_equal(parts_held(), 3);
    size_t count;
    const struct commit_entry *entries = commits_entries(store_commits(store), &count);
    assert_int_equal(count, 3);
    assert_false(entries[2].is_committed);
    assert_string_equal(entries[2].reason, "for a test");
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

static void test_room(void **state)
{
    (void)state;
    struct belay_error err;
    struct store *store = store_create(parts_keeper, "job", NULL);
    parts_commit(store, 1);
    struct store_need need = {.staged_bytes = BYTES};
    store_add_growth(store, 0, 2 * BYTES, &need); /* grows by one */
    assert_int_equal(need.grown_bytes, BYTES);
    assert_int_equal(store_check_room(store, &need, 4 * BYTES, NULL), 0);
    assert_int_equal(store_check_room(store, &need, 4 * BYTES - 1, &err), -1);
    assert_int_equal(err.code, ENOMEM);
    assert_non_null(strstr(err.text, "--memory"));
    struct store_pin pin = parts_pin(store, 1, PIN_MAPPED); /* a copy of it will be made */
    store_add_growth(store, 1, BYTES, &need);
    assert_int_equal(need.grown_bytes, BYTES);
    assert_int_equal(need.copied_bytes, BYTES);
    need.staged_bytes = 1ull << 60;
    assert_int_equal(store_check_room(store, &need, 0, &err), -1);
    assert_non_null(strstr(err.text, "node's memory"));
    store_image_unpin(store, &pin);
    store_destroy(store, true);
}

/* Of two ranks of the world one is on this node: its part is all that a line has here. */
static void test_a_node_has_some_of_the_ranks(void **state)
{
    (void)state;
    struct store *store = store_create(parts_keeper, "job", NULL);
    for (uint64_t line = 1; line <= 2; line++) {
        struct commit_entry entry = {.line = line};
        struct store_item item = {.rank = 1,
                                  .ranks = 2,
                                  .here = 1,
                                  .fd = line == 1 ? parts_image(1, 1) : parts_delta(2, 1, 1),
                                  .bytes = line == 1 ? BYTES : PAGE,
                                  .base_line = line - 1,
                                  .image_bytes = BYTES};
        assert_int_equal(store_stage(store, line, &item, NULL), 0);
        assert_int_equal(store_commit(store, &entry, NULL), 0);
        assert_int_equal(entry.ranks, 2);
        assert_int_equal(entry.here, 1);
    }
    assert_int_equal(store_apply_rest(store, NULL), 0);
    assert_int_equal(store_image(store, 0), -1);
    assert_int_equal(parts_holding(store, 0).image_line, 0);
    assert_int_equal(parts_holding(store, 1).image_line, 2);
    store_destroy(store, false);
    store = parts_adopt(1 << 2);
    assert_int_equal(store_adopt_done(store, NULL), 0);
    assert_int_equal(store_committed_line(store), 2);
    assert_int_equal(parts_line(store_image(store, 1)), 2);
    store_destroy(store, true);
}

static void test_deltas(void **state)
{
    (void)state;
    struct commit_entry entry = {.line = 2};
    struct apply apply;
    struct store *store = store_create(parts_keeper, "job", NULL);
    parts_commit(store, 1);
    assert_false(store_apply_begin(store, 0, &apply));
    struct store_pin pin = parts_pin(store, 1, PIN_MAPPED);
    char *mapped = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, store_image(store, 1),
                        (off_t)image_offset(UPPER_BASE + PAGE));
    parts_stage_delta(store, 2, 1, 0);
    parts_stage_delta(store, 2, 1, 1);
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_int_equal(store_committed_line(store), 2);
    assert_int_equal(store_apply_rest(store, NULL), 0);
    parts_expect_applied(store_image(store, 0), 1, 2);
    parts_expect_applied(store_image(store, 1), 1, 2);
    assert_int_equal(mapped[0], 1); /* who has it mapped sees nothing of it */
    munmap(mapped, PAGE);
    assert_int_equal(store_image_pins(store, 1), 0); /* it has another image */
    store_image_unpin(store, &pin);
    assert_int_equal(store_image_pins(store, 1), 0);
    assert_int_equal(parts_held(), 3);
    struct store_item item = {.rank = 0, .ranks = 2, .fd = parts_delta(3, 1, 0), .base_line = 1};
    assert_int_equal(store_stage(store, 3, &item, NULL), -1); /* line 1 is gone */
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

static void test_torn_record(void **state)
{
    (void)state;
    int fd = memfd_create("record", MFD_CLOEXEC);
    struct commits *commits = commits_create(parts_keeper, "job/commits", NULL);
    struct commit_entry entry = {.line = 1, .is_committed = 1, .ranks = 2};
    size_t count;
    assert_int_equal(commits_append(commits, &entry, NULL), 0);
    assert_int_equal(pwrite(fd, commits_entries(commits, &count), sizeof entry, 0), (ssize_t)sizeof entry);
    entry.line = 2;
    entry.checksum++; /* an entry that was being written */
    assert_int_equal(pwrite(fd, &entry, sizeof entry, sizeof entry), (ssize_t)sizeof entry);
    struct commits *again = commits_adopt(parts_keeper, "job/commits", fd, NULL);
    assert_non_null(again);
    commits_entries(again, &count);
    assert_int_equal(count, 1);
    assert_int_equal(commits_newest(again)->line, 1);
    commits_destroy(commits, false);
    commits_destroy(again, true);
}

static void test_long_record_is_shortened(void **state)
{
    (void)state;
    struct commits *commits = commits_create(parts_keeper, "job/commits", NULL);
    size_t count;
    for (uint64_t line = 1; line <= COMMITS_MAX + 10; line++) {
        struct commit_entry entry = {.line = line, .is_committed = line == 7, .ranks = 1};
        assert_int_equal(commits_append(commits, &entry, NULL), 0);
    }
    const struct commit_entry *entries = commits_entries(commits, &count);
    assert_int_equal(count, COMMITS_KEPT + 10);
    assert_int_equal(entries[count - 1].line, COMMITS_MAX + 10);
    assert_int_equal(commits_newest(commits)->line, 7); /* however old */
    commits_destroy(commits, true);
}

/* Rank 0 runs here, and rank 1 elsewhere: its copy is held, and no line waits for it. */
static void test_guests(void **state)
{
    (void)state;
    struct store *store = store_create(parts_keeper, "job", NULL);
    struct belay_error err;
    struct commit_entry entry = {.line = 1};
    struct store_item own = {
        .rank = 0, .ranks = 2, .here = 1, .fd = parts_image(1, 0), .bytes = BYTES, .image_bytes = BYTES};
    struct store_guest guest = {.rank = 1, .ranks = 2, .here = 1, .fd = parts_image(2, 1)};
    uint64_t base_line = 9;
    assert_int_equal(store_stage_guest(store, 1, &guest, &err), -1); /* of another line */
    assert_int_equal(err.code, EBADMSG);
    guest.fd = parts_image(1, 0); /* of another rank */
    assert_int_equal(store_stage_guest(store, 1, &guest, &err), -1);
    guest.fd = parts_delta(1, 7, 1); /* to an image that is not here */
    guest.is_delta = true;
    assert_int_equal(store_stage_guest(store, 1, &guest, &err), -1);
    assert_int_equal(err.code, EBADMSG);
    guest.fd = memfd_create("nothing", MFD_CLOEXEC);
    assert_int_equal(store_stage_guest(store, 1, &guest, &err), -1);
    assert_int_equal(store_staged_line(store), 0);
    guest.is_delta = false;
    guest.fd = parts_image(1, 1);
    assert_int_equal(store_stage_guest(store, 1, &guest, &err), 0);
    assert_int_equal(store_commit(store, &entry, &err), -1); /* its own is missing */
    assert_int_equal(store_stage(store, 1, &own, NULL), 0);
    assert_true(store_staged(store, 1, 1, &base_line) >= 0);
    assert_int_equal(base_line, 0);
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_int_equal(entry.here, 2);
    assert_int_equal(entry.image_bytes, BYTES); /* of the ranks that run here */
    assert_int_equal(store_image_line(store, 1), 1);
    guest =
        (struct store_guest){.rank = 1, .ranks = 2, .here = 1, .fd = parts_delta(2, 1, 1), .is_delta = true};
    assert_int_equal(store_stage_guest(store, 2, &guest, NULL), 0);
    own.fd = parts_image(2, 0);
    assert_int_equal(store_stage(store, 2, &own, NULL), 0);
    entry.line = 2;
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_int_equal(store_apply_rest(store, NULL), 0);
    parts_expect_applied(store_image(store, 1), 1, 2);
    own.fd = parts_image(3, 0); /* a line without the guest: its node is gone */
    assert_int_equal(store_stage(store, 3, &own, NULL), 0);
    entry.line = 3;
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_int_equal(store_image_line(store, 1), 0);
    store_destroy(store, true);
}

/* A rank is held if what its group shares is, too, and its root is the sum of both. */
static void test_what_ranks_share(void **state)
{
    (void)state;
    struct store *store = store_create(parts_keeper, "job", NULL);
    struct commit_entry entry = {.line = 1};
    struct store_damage damage;
    parts_stage(store, 1, 0);
    parts_stage(store, 1, 1);
    assert_false(store_shares(store, 0));
    parts_stage(store, 1, 2);
    assert_true(store_shares(store, 0) && store_shares(store, 1));
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_int_equal(entry.shared, 1);
    assert_int_equal(store_group(store, 1), 0);
    assert_int_equal(store_verify(store, &damage, NULL), 0); /* now the roots are known */
    struct digest shared, own, root = store_image_root(store, 0);
    assert_int_equal(root_of_image(store_image(store, 0), -1, &own, NULL), 0);
    assert_int_equal(root_of_image(store_image(store, 2), -1, &shared, NULL), 0);
    own = digest_sum(&own, &shared);
    assert_true(digest_is_equal(&root, &own));
    parts_stage_delta(store, 2, 1, 0);
    parts_stage(store, 2, 1);
    parts_stage(store, 2, 2);
    store_note_damage(store, 2);
    assert_int_equal(parts_holding(store, 0).image_line, 0);
    assert_int_equal(parts_holding(store, 1).image_line, 1);
    assert_true(store_shares(store, 1));
    const struct holding staged = parts_holding(store, 0);
    assert_true(holding_has(&staged, 2) && !holding_has(&staged, 1)); /* no delta is to what is damaged */
    store_note_damage(store, 0);
    const struct holding none = parts_holding(store, 0);
    assert_false(holding_has(&none, 2));
    store_destroy(store, true);
}

/* A line without anything shared drops what was; and the next agent takes up as much as was recorded. */
static void test_what_ranks_share_is_taken_up(void **state)
{
    (void)state;
    struct store *store = store_create(parts_keeper, "job", NULL);
    struct commit_entry entry = {.line = 1};
    parts_stage(store, 1, 0);
    parts_stage(store, 1, 1);
    parts_stage(store, 1, 2);
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    parts_stage_delta(store, 2, 1, 0);
    parts_stage(store, 2, 1);
    parts_stage_delta(store, 2, 1, 2);
    entry.line = 2;
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    store_destroy(store, false);
    store = parts_adopt(1u << 1 | 1u << 2);
    assert_int_equal(store_adopt_done(store, NULL), 0);
    parts_expect_applied(store_image(store, 2), 1, 2);
    parts_stage(store, 3, 0);
    parts_stage(store, 3, 1);
    entry.line = 3;
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_int_equal(entry.shared, 0);
    assert_int_equal(store_image(store, 2), -1);
    assert_false(store_shares(store, 0));
    store_destroy(store, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_commit_and_abort),
        EACH(test_room),
        EACH(test_a_node_has_some_of_the_ranks),
        EACH(test_guests),
        EACH(test_torn_record),
        EACH(test_long_record_is_shortened),
        EACH(test_deltas),
        EACH(test_what_ranks_share),
        EACH(test_what_ranks_share_is_taken_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
