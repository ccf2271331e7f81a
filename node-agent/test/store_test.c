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

#include "common/image/layout.h"
#include "node-agent/store/store.h"

#define BYTES 8192u
#define PAGE IMAGE_PAGE_BYTES

static char base[64], rundir[80];
static struct keeper *keeper;

static int setup(void **state)
{
    (void)state;
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 32);
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    strcpy(strrchr(program, '/'), "/belay-keeper");
    strcpy(base, "/tmp/belay-store-XXXXXX");
    assert_non_null(mkdtemp(base));
    snprintf(rundir, sizeof rundir, "%s/run", base);
    assert_int_equal(mkdir(rundir, 0700), 0);
    keeper = keeper_open(rundir, program, NULL);
    return keeper ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    keeper_close(keeper);
    return rmdir(base);
}

/* An image or delta of one region whose runs are these; no page data but for `fill` in each page. */
static int make_part(uint64_t line, uint64_t base_line, uint32_t rank, const struct image_pages *pages,
                     char fill)
{
    struct image_header header = {.line = line, .base_line = base_line, .rank = rank, .ranks = 2};
    struct image_region region = {
        .start = UPPER_BASE, .end = UPPER_BASE + 8 * PAGE, .kind = IMAGE_REGION_ANON};
    struct image_writer *writer = image_writer_create();
    char page[PAGE];
    memset(page, fill, sizeof page);
    int fd = base_line ? memfd_create("delta", MFD_CLOEXEC) : image_make_memfd(NULL);
    for (size_t i = 0; i < pages->runs->count; i++)
        for (uint64_t at = 0; at < pages->runs->runs[i].bytes; at += PAGE)
            assert_int_equal(pwrite(fd, page, PAGE, (off_t)(pages->runs->runs[i].data_offset + at)),
                             (ssize_t)PAGE);
    uint64_t tables = base_line ? PAGE + runs_bytes(pages->runs) : PAGE;
    assert_int_equal(image_writer_add_region(writer, &region, NULL), 0);
    assert_int_equal(image_writer_finish(writer, pages, &header, fd, tables, NULL), 0);
    image_writer_destroy(writer);
    return fd;
}

/* Pages 0 to 3 of an image. */
static struct image_run whole = {UPPER_BASE, 4 * PAGE, 0};

static int make_image(uint64_t line, uint32_t rank)
{
    struct run_set runs = {.runs = &whole, .count = 1};
    struct image_pages pages = {.runs = &runs};
    whole.data_offset = image_offset(whole.address);
    return make_part(line, 0, rank, &pages, (char)line);
}

/* A delta that changes page 1 and drops page 2. */
static int make_delta(uint64_t line, uint64_t base_line, uint32_t rank)
{
    struct image_run changed = {UPPER_BASE + PAGE, PAGE, PAGE}, gone = {UPPER_BASE + 2 * PAGE, PAGE, 0};
    struct image_run left[2] = {{UPPER_BASE, 2 * PAGE, image_offset(UPPER_BASE)},
                                {UPPER_BASE + 3 * PAGE, PAGE, image_offset(UPPER_BASE + 3 * PAGE)}};
    struct run_set runs = {.runs = &changed, .count = 1}, drops = {.runs = &gone, .count = 1},
                   present = {.runs = left, .count = 2};
    struct image_pages pages = {&runs, &drops, &present};
    return make_part(line, base_line, rank, &pages, (char)line);
}

static void stage(struct store *store, uint64_t line, uint32_t rank)
{
    struct store_item item = {
        .rank = rank, .ranks = 2, .fd = make_image(line, rank), .bytes = BYTES, .image_bytes = BYTES};
    assert_int_equal(store_stage(store, line, &item, NULL), 0);
}

static void stage_delta(struct store *store, uint64_t line, uint64_t base_line, uint32_t rank)
{
    struct store_item item = {.rank = rank,
                              .ranks = 2,
                              .fd = make_delta(line, base_line, rank),
                              .bytes = PAGE,
                              .base_line = base_line,
                              .image_bytes = BYTES};
    assert_int_equal(store_stage(store, line, &item, NULL), 0);
}

static void commit(struct store *store, uint64_t line)
{
    struct commit_entry entry = {.line = line};
    stage(store, line, 0);
    stage(store, line, 1);
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_int_equal(entry.image_bytes, 2 * BYTES);
}

static char byte_of(int fd, uint64_t page)
{
    char byte = 'x';
    assert_int_equal(pread(fd, &byte, 1, (off_t)image_offset(UPPER_BASE + page * PAGE)), 1);
    return byte;
}

/* The image of `line` after make_delta(line) on the image of base_line. */
static void expect_applied(int fd, uint64_t base_line, uint64_t line)
{
    struct image_view view;
    assert_int_equal(image_load(fd, &view, NULL), 0);
    assert_int_equal(view.header->line, line);
    assert_int_equal(view.header->run_count, 2);
    image_unload(&view);
    assert_int_equal(byte_of(fd, 0), (char)base_line);
    assert_int_equal(byte_of(fd, 1), (char)line);
    assert_int_equal(byte_of(fd, 2), 0);
    assert_int_equal(byte_of(fd, 3), (char)base_line);
}

static uint64_t line_of(int fd)
{
    struct image_header header;
    assert_int_equal(pread(fd, &header, sizeof header, 0), (ssize_t)sizeof header);
    return header.line;
}

static void count_one(void *context, const char *name, int fd)
{
    (void)name;
    close(fd);
    ++*(unsigned *)context;
}

static unsigned count_held(void)
{
    unsigned count = 0;
    assert_int_equal(keeper_list(keeper, count_one, &count, NULL), 0);
    return count;
}

static void test_commit_and_abort(void **state)
{
    (void)state;
    struct commit_entry entry = {.line = 3};
    struct store *store = store_create(keeper, "job", NULL);
    assert_int_equal(store_committed_line(store), 0);
    assert_int_equal(store_image(store, 0), -1);
    commit(store, 1);
    commit(store, 2);
    assert_int_equal(store_committed_line(store), 2);
    assert_int_equal(line_of(store_image(store, 1)), 2);
    assert_int_equal(count_held(), 3); /* two images and the record: line 1 is forgotten */
    stage(store, 3, 0);
    assert_int_equal(store_held_bytes(store), 3 * BYTES);
    assert_int_equal(store_commit(store, &entry, NULL), -1); /* rank 1's image is missing */
    assert_int_equal(store_committed_line(store), 2);
    strcpy(entry.reason, "for a test");
    store_abort(store, &entry, false);
    assert_int_equal(store_held_bytes(store), 2 * BYTES);
    assert_int_equal(count_held(), 3);
    size_t count;
    const struct commit_entry *entries = commits_entries(store_commits(store), &count);
    assert_int_equal(count, 3);
    assert_false(entries[2].is_committed);
    assert_string_equal(entries[2].reason, "for a test");
    store_destroy(store, true);
    assert_int_equal(count_held(), 0);
}

static struct store_pin pinned(struct store *store, uint32_t rank, enum pin_reason reason)
{
    struct store_pin pin;
    assert_int_equal(store_image_pin(store, rank, reason, &pin, NULL), 0);
    return pin;
}

static void test_room(void **state)
{
    (void)state;
    struct belay_error err;
    struct store *store = store_create(keeper, "job", NULL);
    commit(store, 1);
    struct store_need need = {.staged_bytes = BYTES};
    store_add_growth(store, 0, 2 * BYTES, &need); /* grows by one */
    assert_int_equal(need.grown_bytes, BYTES);
    assert_int_equal(store_check_room(store, &need, 4 * BYTES, NULL), 0);
    assert_int_equal(store_check_room(store, &need, 4 * BYTES - 1, &err), -1);
    assert_int_equal(err.code, ENOMEM);
    assert_non_null(strstr(err.text, "--memory"));
    struct store_pin pin = pinned(store, 1, PIN_MAPPED); /* a copy of it will be made */
    store_add_growth(store, 1, BYTES, &need);
    assert_int_equal(need.grown_bytes, BYTES);
    assert_int_equal(need.copied_bytes, BYTES);
    need.staged_bytes = 1ull << 60;
    assert_int_equal(store_check_room(store, &need, 0, &err), -1);
    assert_non_null(strstr(err.text, "node's memory"));
    store_image_unpin(store, &pin);
    store_destroy(store, true);
}

/* What the keeper holds. */
struct held {
    char names[8][KEEPER_NAME_BYTES];
    int fds[8];
    unsigned count;
};

static void collect(void *context, const char *name, int fd)
{
    struct held *held = context;
    assert_true(held->count < 8);
    strcpy(held->names[held->count], name);
    held->fds[held->count++] = fd;
}

/* As record_adopt() does, for one job. */
static struct store *adopt_protected(uint64_t protected_line, uint64_t lines_expected)
{
    struct held held = {.count = 0};
    struct store *store = NULL;
    uint64_t lines = 0;
    unsigned long long line;
    unsigned rank;
    assert_int_equal(keeper_list(keeper, collect, &held, NULL), 0);
    for (unsigned i = 0; i < held.count; i++)
        if (!strcmp(held.names[i], "job/commits"))
            store = store_adopt(keeper, "job", held.fds[i], protected_line, 0, NULL);
    assert_non_null(store);
    for (unsigned i = 0; i < held.count; i++) {
        bool is_delta = sscanf(held.names[i], "job/delta/%llu/%u", &line, &rank) == 2;
        if (!is_delta && sscanf(held.names[i], "job/image/%llu/%u", &line, &rank) != 2)
            continue;
        assert_int_equal(store_adopt_item(store, is_delta, line, rank, held.fds[i], NULL), 0);
        lines |= 1ull << line;
    }
    assert_int_equal(lines, lines_expected);
    return store;
}

static struct store *adopt(uint64_t lines_expected)
{
    return adopt_protected(0, lines_expected);
}

static struct holding held_of(const struct store *store, uint32_t rank)
{
    struct holding held[2];
    assert_int_equal(store_held_ranks(store), 2);
    store_list_held(store, held);
    return held[rank];
}

/* Of two ranks of the world one is on this node: its part is all that a line has here. */
static void test_a_node_has_some_of_the_ranks(void **state)
{
    (void)state;
    struct store *store = store_create(keeper, "job", NULL);
    for (uint64_t line = 1; line <= 2; line++) {
        struct commit_entry entry = {.line = line};
        struct store_item item = {.rank = 1,
                                  .ranks = 2,
                                  .here = 1,
                                  .fd = line == 1 ? make_image(1, 1) : make_delta(2, 1, 1),
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
    assert_int_equal(held_of(store, 0).image_line, 0);
    assert_int_equal(held_of(store, 1).image_line, 2);
    store_destroy(store, false);
    store = adopt(1 << 2);
    assert_int_equal(store_adopt_done(store, NULL), 0);
    assert_int_equal(store_committed_line(store), 2);
    assert_int_equal(line_of(store_image(store, 1)), 2);
    store_destroy(store, true);
}

/* A protected line outlives its abort; the next epoch's verdict commits it. */
static void test_a_protected_line_is_rolled_forward_to(void **state)
{
    (void)state;
    struct commit_entry entry = {.line = 2};
    struct store *store = store_create(keeper, "job", NULL);
    commit(store, 1);
    stage_delta(store, 2, 1, 0);
    stage_delta(store, 2, 1, 1);
    store_abort(store, &entry, true);
    assert_int_equal(store_staged_line(store), 2);
    assert_int_equal(store_newest_line(store), 2);
    assert_int_equal(store_committed_line(store), 1);
    assert_int_equal(held_of(store, 1).image_line, 1);
    assert_int_equal(held_of(store, 1).staging_line, 2);
    assert_int_equal(held_of(store, 1).base_line, 1);
    assert_int_equal(store_settle(store, 2, NULL), 0);
    assert_int_equal(store_committed_line(store), 2);
    assert_int_equal(store_staged_line(store), 0);
    expect_applied(store_image(store, 0), 1, 2);
    expect_applied(store_image(store, 1), 1, 2);
    assert_int_equal(commits_newest(store_commits(store))->line, 2);
    assert_int_equal(count_held(), 3);
    store_destroy(store, true);
}

/* The verdict may be another one, and the next capture writes over what is staged. */
static void test_a_protected_line_is_given_up(void **state)
{
    (void)state;
    struct commit_entry entry = {.line = 2};
    struct store *store = store_create(keeper, "job", NULL);
    commit(store, 1);
    for (int is_settled = 0; is_settled < 2; is_settled++) {
        stage_delta(store, entry.line, 1, 0);
        stage_delta(store, entry.line, 1, 1);
        store_abort(store, &entry, true);
        assert_int_equal(count_held(), 5);
        if (is_settled)
            assert_int_equal(store_settle(store, 1, NULL), 0);
        else
            store_drop_staging(store);
        assert_int_equal(store_newest_line(store), 1);
        assert_int_equal(held_of(store, 0).staging_line, 0);
        assert_int_equal(count_held(), 3);
        entry.line++;
    }
    store_destroy(store, true);
}

/* A line that is staged in part, or is not there at all, cannot be gone on from, and nothing is dropped. */
static void test_what_is_not_whole_is_not_settled(void **state)
{
    (void)state;
    struct store *store = store_create(keeper, "job", NULL);
    commit(store, 1);
    stage_delta(store, 2, 1, 0);
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
        struct store *store = store_create(keeper, "job", NULL);
        if (line == 2)
            commit(store, 1);
        for (uint32_t rank = 0; rank < 2; rank++)
            line == 1 ? stage(store, 1, rank) : stage_delta(store, 2, 1, rank);
        uint64_t held_bytes = store_held_bytes(store);
        store_destroy(store, false);
        store = adopt_protected(line, line == 1 ? 1 << 1 : 1 << 1 | 1 << 2);
        assert_int_equal(store_adopt_done(store, NULL), 0);
        assert_int_equal(store_committed_line(store), line - 1);
        assert_int_equal(store_newest_line(store), line);
        assert_int_equal(held_of(store, 1).staging_line, line);
        assert_int_equal(held_of(store, 1).base_line, line - 1);
        assert_true(store_held_bytes(store) >= held_bytes);
        assert_int_equal(store_settle(store, line, NULL), 0);
        assert_int_equal(store_committed_line(store), line);
        assert_int_equal(line_of(store_image(store, 1)), line);
        assert_int_equal(count_held(), 3);
        store_destroy(store, true);
        assert_int_equal(count_held(), 0);
    }
}

/* Of a line that no record protects, or that is not whole, nothing is kept. */
static void test_what_is_not_protected_is_not_adopted(void **state)
{
    (void)state;
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        struct store *store = store_create(keeper, "job", NULL);
        commit(store, 1);
        stage_delta(store, 2, 1, 0);
        if (is_whole)
            stage_delta(store, 2, 1, 1);
        store_destroy(store, false);
        store = adopt_protected(is_whole ? 3 : 2, 1 << 1 | 1 << 2);
        assert_int_equal(store_adopt_done(store, NULL), 0);
        assert_int_equal(store_newest_line(store), 1);
        assert_int_equal(count_held(), 3);
        store_destroy(store, true);
    }
}

static void test_adoption(void **state)
{
    (void)state;
    struct store *store = store_create(keeper, "job", NULL);
    commit(store, 1);
    stage(store, 2, 0); /* an agent that is killed here leaves a staged image of line 2 */
    stage(store, 2, 1);
    store_destroy(store, false);
    store = adopt(1 << 1 | 1 << 2);
    assert_int_equal(store_adopt_done(store, NULL), 0);
    assert_int_equal(store_committed_line(store), 1);
    assert_int_equal(store_ranks(store), 2);
    assert_int_equal(line_of(store_image(store, 0)), 1);
    assert_int_equal(count_held(), 3);
    commit(store, 5); /* and life goes on */
    assert_int_equal(store_committed_line(store), 5);
    keeper_drop(keeper, "job/image/5/1", NULL);
    store_destroy(store, false);
    store = adopt(1 << 5); /* not whole: nothing of it counts */
    assert_int_equal(store_adopt_done(store, NULL), -1);
    assert_true(count_held() > 0); /* whether it is dropped is for the caller to say */
    store_destroy(store, true);
    assert_int_equal(count_held(), 0);
}

static void test_deltas(void **state)
{
    (void)state;
    struct commit_entry entry = {.line = 2};
    struct apply apply;
    struct store *store = store_create(keeper, "job", NULL);
    commit(store, 1);
    assert_false(store_apply_begin(store, 0, &apply));
    struct store_pin pin = pinned(store, 1, PIN_MAPPED);
    char *mapped = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, store_image(store, 1),
                        (off_t)image_offset(UPPER_BASE + PAGE));
    stage_delta(store, 2, 1, 0);
    stage_delta(store, 2, 1, 1);
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_int_equal(store_committed_line(store), 2);
    assert_int_equal(store_apply_rest(store, NULL), 0);
    expect_applied(store_image(store, 0), 1, 2);
    expect_applied(store_image(store, 1), 1, 2);
    assert_int_equal(mapped[0], 1); /* who has it mapped sees nothing of it */
    munmap(mapped, PAGE);
    assert_int_equal(store_image_pins(store, 1), 0); /* it has another image */
    store_image_unpin(store, &pin);
    assert_int_equal(store_image_pins(store, 1), 0);
    assert_int_equal(count_held(), 3);
    struct store_item item = {.rank = 0, .ranks = 2, .fd = make_delta(3, 1, 0), .base_line = 1};
    assert_int_equal(store_stage(store, 3, &item, NULL), -1); /* line 1 is gone */
    store_destroy(store, true);
    assert_int_equal(count_held(), 0);
}

/* The copy that a pinned image needs is made before its delta comes. */
static void test_copy_ahead(void **state)
{
    (void)state;
    struct commit_entry entry = {.line = 2};
    struct store *store = store_create(keeper, "job", NULL);
    struct store_pin pin;
    commit(store, 1);
    assert_false(store_copy_begin(store, 1, 0, &pin)); /* not pinned: changed in place */
    struct store_pin first = pinned(store, 1, PIN_MAPPED);
    assert_false(store_copy_begin(store, 1, 1, &pin)); /* no room */
    assert_true(store_copy_begin(store, 1, 0, &pin));
    char *mapped = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, pin.fd, (off_t)image_offset(UPPER_BASE + PAGE));
    int copy = apply_copy(pin.fd, NULL);
    assert_true(copy >= 0);
    store_copy_end(store, &pin, copy);
    assert_int_equal(store_image_pins(store, 1), 1);
    assert_false(store_copy_begin(store, 1, 0, &pin));
    stage_delta(store, 2, 1, 0);
    stage_delta(store, 2, 1, 1);
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_int_equal(store_apply_rest(store, NULL), 0);
    assert_int_equal(store_image(store, 1), copy);
    expect_applied(copy, 1, 2);
    assert_int_equal(mapped[0], 1);
    munmap(mapped, PAGE);
    store_image_unpin(store, &first);
    struct store_pin second = pinned(store, 1, PIN_MAPPED);
    assert_true(store_copy_begin(store, 1, 0, &pin));
    store_copy_end(store, &pin, apply_copy(copy, NULL)); /* not used: it goes with the store */
    store_image_unpin(store, &second);
    store_destroy(store, true);
    assert_int_equal(count_held(), 0);
}

/* Line 2 is applied to an image of line 1 that has so many pins left of two. */
static void apply_to_pinned(enum pin_reason reason, int left)
{
    struct commit_entry entry = {.line = 2};
    struct apply apply;
    struct store *store = store_create(keeper, "job", NULL);
    commit(store, 1);
    struct store_pin pins[] = {pinned(store, 0, reason), pinned(store, 0, PIN_FETCHED)};
    int fd = dup(store_image(store, 0));
    for (int i = left; i < 2; i++)
        store_image_unpin(store, &pins[i]);
    assert_int_equal(store_image_pins(store, 0), left);
    stage_delta(store, 2, 1, 0);
    stage_delta(store, 2, 1, 1);
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_true(store_apply_begin(store, 0, &apply));
    assert_int_equal(apply.is_pinned, left > 0);
    assert_int_equal(store_apply_rest(store, NULL), 0);
    assert_int_equal(byte_of(fd, 1), left > 0 ? 1 : 2);
    expect_applied(store_image(store, 0), 1, 2);
    for (int i = 0; i < 2; i++)
        store_image_unpin(store, &pins[i]);
    assert_int_equal(store_image_pins(store, 0), 0);
    close(fd);
    store_destroy(store, true);
}

/* Whoever has pinned it, and however many: it is changed in place only when the last has let go. */
static void test_a_pinned_image_is_never_changed_in_place(void **state)
{
    (void)state;
    for (int reason = PIN_MAPPED; reason < PIN_REASONS; reason++)
        for (int left = 0; left <= 2; left++)
            apply_to_pinned((enum pin_reason)reason, left);
}

/* While a delta is being applied in place nobody may rely on the image; when it is done, everybody may. */
static void test_an_image_that_changes_cannot_be_pinned(void **state)
{
    (void)state;
    struct commit_entry entry = {.line = 2};
    struct belay_error err;
    struct apply apply;
    struct store_pin pin;
    struct store *store = store_create(keeper, "job", NULL);
    commit(store, 1);
    stage_delta(store, 2, 1, 0);
    stage_delta(store, 2, 1, 1);
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_true(store_apply_begin(store, 0, &apply));
    assert_int_equal(store_image_pin(store, 0, PIN_FETCHED, &pin, &err), -1);
    assert_int_equal(err.code, EBUSY);
    assert_int_equal(apply_delta(&apply, NULL), 0);
    assert_int_equal(store_apply_end(store, &apply, NULL), 0);
    pin = pinned(store, 0, PIN_FETCHED);
    assert_int_equal(byte_of(pin.fd, 1), 2);
    store_image_unpin(store, &pin);
    assert_int_equal(store_image_pin(store, 2, PIN_FETCHED, &pin, &err), -1); /* nothing is shared */
    assert_int_equal(err.code, ENOENT);
    store_destroy(store, true);
}

static void test_who_has_pinned_it(void **state)
{
    (void)state;
    char text[128];
    struct store *store = store_create(keeper, "job", NULL);
    commit(store, 1);
    assert_string_equal(store_image_pinned_by(store, 0, text, sizeof text), "");
    struct store_pin mapped = pinned(store, 0, PIN_MAPPED), archived = pinned(store, 0, PIN_ARCHIVED);
    assert_string_equal(store_image_pinned_by(store, 0, text, sizeof text),
                        "mapped by its process, being archived");
    assert_int_equal(strlen(store_image_pinned_by(store, 0, text, 10)), 9);
    store_image_unpin(store, &mapped);
    store_image_unpin(store, &mapped); /* it is none any more */
    assert_string_equal(store_image_pinned_by(store, 0, text, sizeof text), "being archived");
    store_image_unpin(store, &archived);
    store_destroy(store, true);
}

/* An agent that is killed before, amid or after the apply; the next one gets to the same end. */
static void test_apply_is_taken_up(void **state)
{
    (void)state;
    for (int step = 0; step < 4; step++) {
        struct commit_entry entry = {.line = 2};
        struct apply apply;
        struct store *store = store_create(keeper, "job", NULL);
        commit(store, 1);
        stage_delta(store, 2, 1, 0);
        stage_delta(store, 2, 1, 1);
        assert_int_equal(store_commit(store, &entry, NULL), 0);
        assert_true(store_apply_begin(store, 0, &apply));
        if (step == 1) /* tables half written */
            assert_int_equal(pwrite(apply.image, "torn", 4, PAGE), 4);
        if (step >= 2)
            assert_int_equal(apply_delta(&apply, NULL), 0);
        if (step == 3)
            assert_int_equal(store_apply_end(store, &apply, NULL), 0);
        store_destroy(store, false);
        store = adopt(1 << 1 | 1 << 2);
        assert_int_equal(store_adopt_done(store, NULL), 0);
        assert_int_equal(store_committed_line(store), 2);
        expect_applied(store_image(store, 0), 1, 2);
        expect_applied(store_image(store, 1), 1, 2);
        assert_int_equal(count_held(), 3);
        store_destroy(store, true);
        assert_int_equal(count_held(), 0);
    }
}

static void test_torn_record(void **state)
{
    (void)state;
    int fd = memfd_create("record", MFD_CLOEXEC);
    struct commits *commits = commits_create(keeper, "job/commits", NULL);
    struct commit_entry entry = {.line = 1, .is_committed = 1, .ranks = 2};
    size_t count;
    assert_int_equal(commits_append(commits, &entry, NULL), 0);
    assert_int_equal(pwrite(fd, commits_entries(commits, &count), sizeof entry, 0), (ssize_t)sizeof entry);
    entry.line = 2;
    entry.checksum++; /* an entry that was being written */
    assert_int_equal(pwrite(fd, &entry, sizeof entry, sizeof entry), (ssize_t)sizeof entry);
    struct commits *again = commits_adopt(keeper, "job/commits", fd, NULL);
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
    struct commits *commits = commits_create(keeper, "job/commits", NULL);
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
    struct store *store = store_create(keeper, "job", NULL);
    struct belay_error err;
    struct commit_entry entry = {.line = 1};
    struct store_item own = {
        .rank = 0, .ranks = 2, .here = 1, .fd = make_image(1, 0), .bytes = BYTES, .image_bytes = BYTES};
    struct store_guest guest = {.rank = 1, .ranks = 2, .here = 1, .fd = make_image(2, 1)};
    uint64_t base_line = 9;
    assert_int_equal(store_stage_guest(store, 1, &guest, &err), -1); /* of another line */
    assert_int_equal(err.code, EBADMSG);
    guest.fd = make_image(1, 0); /* of another rank */
    assert_int_equal(store_stage_guest(store, 1, &guest, &err), -1);
    guest.fd = make_delta(1, 7, 1); /* to an image that is not here */
    guest.is_delta = true;
    assert_int_equal(store_stage_guest(store, 1, &guest, &err), -1);
    assert_int_equal(err.code, EBADMSG);
    guest.fd = memfd_create("nothing", MFD_CLOEXEC);
    assert_int_equal(store_stage_guest(store, 1, &guest, &err), -1);
    assert_int_equal(store_staged_line(store), 0);
    guest.is_delta = false;
    guest.fd = make_image(1, 1);
    assert_int_equal(store_stage_guest(store, 1, &guest, &err), 0);
    assert_int_equal(store_commit(store, &entry, &err), -1); /* its own is missing */
    assert_int_equal(store_stage(store, 1, &own, NULL), 0);
    assert_true(store_staged(store, 1, 1, &base_line) >= 0);
    assert_int_equal(base_line, 0);
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_int_equal(entry.here, 2);
    assert_int_equal(entry.image_bytes, BYTES); /* of the ranks that run here */
    assert_int_equal(store_image_line(store, 1), 1);
    assert_false(store_guests_lack(store, 1));
    guest = (struct store_guest){
        .rank = 1, .ranks = 2, .here = 1, .fd = make_delta(2, 1, 1), .is_delta = true, .lacks = true};
    assert_int_equal(store_stage_guest(store, 2, &guest, NULL), 0);
    own.fd = make_image(2, 0);
    assert_int_equal(store_stage(store, 2, &own, NULL), 0);
    entry.line = 2;
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_int_equal(store_apply_rest(store, NULL), 0);
    expect_applied(store_image(store, 1), 1, 2);
    assert_true(store_guests_lack(store, 2));
    own.fd = make_image(3, 0); /* a line without the guest: its node is gone */
    assert_int_equal(store_stage(store, 3, &own, NULL), 0);
    entry.line = 3;
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_int_equal(store_image_line(store, 1), 0);
    assert_false(store_guests_lack(store, 3));
    store_destroy(store, true);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_commit_and_abort),
        EACH(test_room),
        EACH(test_a_node_has_some_of_the_ranks),
        EACH(test_guests),
        EACH(test_a_protected_line_is_rolled_forward_to),
        EACH(test_a_protected_line_is_given_up),
        EACH(test_what_is_not_whole_is_not_settled),
        EACH(test_a_protected_line_is_adopted),
        EACH(test_what_is_not_protected_is_not_adopted),
        EACH(test_adoption),
        EACH(test_torn_record),
        EACH(test_long_record_is_shortened),
        EACH(test_deltas),
        EACH(test_copy_ahead),
        EACH(test_a_pinned_image_is_never_changed_in_place),
        EACH(test_an_image_that_changes_cannot_be_pinned),
        EACH(test_who_has_pinned_it),
        EACH(test_apply_is_taken_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
