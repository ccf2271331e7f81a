/*
 * tracker_test.c - images kept by deltas are, page by page, what a full capture at the same line gives: with
 * every operation on memory, aborted lines, children, and frozen images.
 *
 *     tracker_test [FIRST_SEED LAST_SEED LINES]
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/pagemap.h"
#include "common/util/uffd.h"
#include "node-agent/capture/cow.h"
#include "node-agent/test/half.h"
#include "node-agent/test/mover.h"
#include "node-agent/test/steps.h"

#define PAGE IMAGE_PAGE_BYTES
#define OPERATIONS 25u
#define POOL "/proc/sys/vm/nr_hugepages" /* pages that are set aside; locked by who changes it */
#define POOL_PAGES 64u

static unsigned first_seed = 1, last_seed = 2, lines = 70;
static unsigned last_pool_seed = 1;
static FILE *pool;
static unsigned pool_before;
static uint64_t ahead_bytes; /* copied while the child ran */

/* What a process restored from the image would read. */
static void read_page(int image, const struct image_view *view, int file, uint64_t address, char *page)
{
    struct run_set runs = {.runs = (struct image_run *)(uintptr_t)view->runs,
                           .count = view->header->run_count};
    size_t found = runs_find(&runs, address);
    const struct image_region *region = view->regions;
    memset(page, 0, PAGE);
    if (found < runs.count && runs.runs[found].address <= address) {
        off_t offset = (off_t)(runs.runs[found].data_offset + address - runs.runs[found].address);
        assert_int_equal(pread(image, page, PAGE, offset), (ssize_t)PAGE);
        return;
    }
    while (region->end <= address)
        region++;
    if (region->kind == IMAGE_REGION_FILE)
        assert_true(pread(file, page, PAGE, (off_t)(region->file_offset + address - region->start)) >= 0);
}

static void compare_runs(const struct image_view *of, int mine, const struct image_view *my_view, int theirs,
                         const struct image_view *their_view, int file)
{
    char a[PAGE], b[PAGE];
    for (uint64_t i = 0; i < of->header->run_count; i++)
        for (uint64_t done = 0; done < of->runs[i].bytes; done += PAGE) {
            uint64_t address = of->runs[i].address + done;
            read_page(mine, my_view, file, address, a);
            read_page(theirs, their_view, file, address, b);
            if (memcmp(a, b, PAGE))
                fail_msg("line %llu: the page at %#llx differs", (unsigned long long)my_view->header->line,
                         (unsigned long long)address);
        }
}

/* The region at an address and its like neighbours: being tracked makes one mapping of several. */
static struct image_region widest(const struct image_view *view, uint64_t i, uint64_t *next)
{
    struct image_region all = view->regions[i];
    for (i++; i < view->header->region_count; all.end = view->regions[i++].end) {
        const struct image_region *region = &view->regions[i];
        bool is_like = region->start == all.end && region->kind == all.kind && region->prot == all.prot &&
                       (!region->path || region->file_offset == all.file_offset + region->start - all.start);
        if (!is_like)
            break;
    }
    *next = i;
    return all;
}

static void compare_regions(const struct image_view *mine, const struct image_view *full)
{
    uint64_t i = 0, j = 0;
    while (i < mine->header->region_count && j < full->header->region_count) {
        struct image_region a = widest(mine, i, &i), b = widest(full, j, &j);
        assert_memory_equal(&a, &b, sizeof a);
    }
    assert_int_equal(i, mine->header->region_count);
    assert_int_equal(j, full->header->region_count);
}

static void compare(int mine, int full, int file)
{
    struct image_view my_view, full_view;
    assert_int_equal(image_load(mine, &my_view, NULL), 0);
    assert_int_equal(image_load(full, &full_view, NULL), 0);
    assert_int_equal(my_view.header->line, full_view.header->line);
    compare_regions(&my_view, &full_view);
    compare_runs(&my_view, mine, &my_view, full, &full_view, file);
    compare_runs(&full_view, mine, &my_view, full, &full_view, file);
    image_unload(&my_view);
    image_unload(&full_view);
}

/* It goes on while its memory is copied ahead. */
static void move_during_rounds(struct mover *mover, struct memory *memory, uint64_t line)
{
    mover_run(mover);
    memory_settle(memory); /* after the line before */
    for (int round = 0; round < 4; round++) {
        ahead_bytes += steps_ahead(memory, line);
        mover_write_from_outside(mover);
    }
    mover_halt(mover);
}

static void follow(const struct tracker_ops *ops, unsigned seed)
{
    struct mover mover;
    int image = -1;
    uint64_t whole_bytes = 0, delta_bytes = 0;
    mover_start(&mover, seed);
    steps_moves = mover.moves;
    struct memory *memory = memory_create(mover.pid, &upper_only, ops, mover.uffd, -1, 0, NULL);
    struct memory *other = memory_create(mover.pid, &upper_only, &tracker_full, -1, -1, 0, NULL);
    assert_non_null(memory);
    for (uint64_t line = 1; line <= lines; line++) {
        if (line == 2 || line % 3 == 0) /* the first image, too */
            move_during_rounds(&mover, memory, line);
        else
            mover_round(&mover, OPERATIONS);
        mover_write_from_outside(&mover);
        struct capture *mine = steps_capture(memory, line);
        if (line % 7 == 1 || line % 5 == 3) { /* aborted */
            capture_destroy(mine);
            continue;
        }
        struct capture *theirs = steps_capture(other, line);
        delta_bytes += capture_data_bytes(mine);
        whole_bytes += capture_data_bytes(theirs);
        image = steps_image(mine, image, line, line % 4 == 0);
        int full = steps_image(theirs, -1, line, false);
        compare(image, full, mover.file);
        close(full);
    }
    print_message("seed %u: %.1f MiB instead of %.1f\n", seed, delta_bytes / 1048576.0,
                  whole_bytes / 1048576.0);
    assert_true(delta_bytes < whole_bytes);
    close(image);
    mover_end(&mover);
    steps_moves = NULL;
    memory_unref(memory);
    memory_unref(other);
}

/*
 * The same with lines that copy while the child goes on, with both of its threads, from what was protected
 * when it stood still. The kernel's writes and those of this process are among the writers that race.
 * pool_bytes: of the pool of pages by way of which this is done, 0: none.
 */
static void follow_guarded(const struct tracker_ops *ops, uint64_t pool_bytes, unsigned seed)
{
    struct mover mover;
    int image = -1;
    uint64_t guarded_bytes = 0;
    mover_start(&mover, seed);
    steps_moves = mover.moves;
    struct memory *memory = memory_create(mover.pid, &upper_only, ops, mover.uffd, -1, 0, NULL);
    struct memory *other = memory_create(mover.pid, &upper_only, &tracker_full, -1, -1, 0, NULL);
    assert_non_null(memory);
    assert_int_equal(memory_guard(memory, mover.guard, NULL), 0);
    if (pool_bytes > 0)
        assert_int_equal(memory_pool(memory, pool_bytes, NULL), 0);
    for (uint64_t line = 1; line <= lines; line++) {
        uint64_t bytes;
        if (line % 3 == 0)
            move_during_rounds(&mover, memory, line);
        else
            mover_round(&mover, OPERATIONS);
        mover_write_from_outside(&mover);
        struct capture *mine = steps_begin(memory, line, mover.copying, &bytes);
        struct capture *theirs = steps_capture(other, line);
        guarded_bytes += bytes;
        mover_run(&mover);
        for (int i = 0; i < 8; i++)
            mover_write_from_outside(&mover);
        memory_settle(memory); /* after the line before */
        if (line % 7 != 1)     /* aborted */
            steps_finish(mine, line);
        mover_halt(&mover);
        if (line % 7 == 1 || line % 5 == 3) {
            capture_destroy(mine);
            capture_destroy(theirs);
            continue;
        }
        image = steps_image(mine, image, line, line % 4 == 0);
        int full = steps_image(theirs, -1, line, false);
        compare(image, full, mover.file);
        close(full);
        memory_prepare(memory, UINT64_MAX);
    }
    print_message("seed %u: %.1f MiB were copied while the child went on\n", seed, guarded_bytes / 1048576.0);
    assert_true(guarded_bytes > 0);
    close(image);
    mover_end(&mover);
    steps_moves = NULL;
    memory_unref(memory);
    memory_unref(other);
}

static void copy_what_is_protected(const struct tracker_ops *ops, uint64_t pool_bytes, unsigned last)
{
    if (!ops->works() || !cow_works()) {
        print_message("skipped: no %s, or no protection, on this kernel\n", ops->name);
        skip();
    }
    for (unsigned seed = first_seed; seed <= last; seed++)
        follow_guarded(ops, pool_bytes, seed);
}

static void test_copies_of_what_is_protected(void **state)
{
    copy_what_is_protected(*state, 0, last_seed);
}

/* The pool is so small that it is full most of the time. */
static void test_copies_by_a_pool(void **state)
{
    copy_what_is_protected(*state, 1, last_pool_seed);
}

/* The line's image, compared with a full capture. */
static int check_line(struct memory *memory, struct memory *other, int image, uint64_t line)
{
    struct capture *mine = steps_capture(memory, line), *theirs = steps_capture(other, line);
    image = steps_image(mine, image, line, false);
    int full = steps_image(theirs, -1, line, false);
    compare(image, full, -1);
    close(full);
    return image;
}

static int add_run(void *context, uint64_t start, uint64_t end)
{
    return runs_append(context, start, end - start);
}

/*
 * A part of a mapping goes away and comes back: the kernel merges it with its neighbours, which lose their
 * tracking without having been touched. (This process is its own subject.)
 */
static void test_neighbours_of_a_moved_mapping(void **state)
{
    const struct tracker_ops *ops = *state;
    if (!ops->works()) {
        print_message("skipped: no %s on this kernel\n", ops->name);
        skip();
    }
    char *const place = (char *)(uintptr_t)UPPER_BASE, *const elsewhere = place + 1000 * PAGE;
    volatile char *word = place + 5 * PAGE;
    const int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    struct memory *memory = memory_create(getpid(), &upper_only, ops, uffd_make(), -1, 0, NULL);
    struct memory *other = memory_create(getpid(), &upper_only, &tracker_full, -1, -1, 0, NULL);
    assert_ptr_equal(mmap(place, 30 * PAGE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
                     place);
    memset(place, 1, 30 * PAGE);
    int image = check_line(memory, other, -1, 1);
    assert_ptr_equal(mremap(place + 10 * PAGE, 10 * PAGE, 10 * PAGE, flags, elsewhere), elsewhere);
    image = check_line(memory, other, image, 2);
    assert_ptr_not_equal(mremap(elsewhere, 10 * PAGE, 10 * PAGE, flags, place + 10 * PAGE), MAP_FAILED);
    for (uint64_t line = 3; line <= 5; line++) {
        *word = (char)line;
        image = check_line(memory, other, image, line);
    }
    close(image);
    munmap(place, 30 * PAGE);
    memory_unref(memory);
    memory_unref(other);
}

static uint64_t huge_bytes(const char *place, uint64_t bytes)
{
    struct run_set found = {0};
    struct pagemap_query query = {
        .start = (uintptr_t)place, .end = (uintptr_t)place + bytes, .all = PAGEMAP_HUGE};
    int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    assert_int_equal(pagemap_scan(pagemap, &query, add_run, &found), 0);
    close(pagemap);
    uint64_t sum = runs_bytes(&found);
    runs_release(&found);
    return sum;
}

/* Huge pages that were written to, and so split, are whole again after a line, and stay so until the next. */
static void test_huge_pages(void **state)
{
    (void)state;
    const uint64_t block = 2 << 20, bytes = 4 * block;
    char *const place = (char *)(uintptr_t)UPPER_BASE;
    volatile char *word = place + block;
    if (!tracker_pagemap_scan.works()) {
        print_message("skipped: no pagemap_scan on this kernel\n");
        skip();
    }
    assert_ptr_equal(
        mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
        place);
    madvise(place, bytes, MADV_HUGEPAGE);
    memset(place, 1, bytes);
    bool is_huge = huge_bytes(place, bytes) == bytes;
    struct memory *memory =
        memory_create(getpid(), &upper_only, &tracker_pagemap_scan, uffd_make(), -1, 0, NULL);
    struct memory *other = memory_create(getpid(), &upper_only, &tracker_full, -1, -1, 0, NULL);
    int image = -1;
    for (uint64_t line = 1; is_huge && line <= 4; line++) {
        image = check_line(memory, other, image, line);
        memory_settle(memory);
        is_huge = huge_bytes(place, bytes) == bytes;
        *word = (char)(line + 1);
        if (is_huge && line == 1) /* it is protected for the first time: the write has split it */
            assert_int_equal(huge_bytes(place, bytes), bytes - block);
        else if (is_huge)
            assert_int_equal(huge_bytes(place, bytes), bytes);
        word += PAGE;
    }
    if (image >= 0)
        close(image);
    munmap(place, bytes);
    memory_unref(memory);
    memory_unref(other);
    if (!is_huge && geteuid() != 0) { /* collapsing takes a privilege; or there was no huge page to be had */
        print_message("skipped: huge pages are made by root only\n");
        skip();
    }
    assert_true(is_huge || image < 0);
}

static void test_every_operation(void **state)
{
    const struct tracker_ops *ops = *state;
    if (!ops->works()) {
        print_message("skipped: no %s on this kernel\n", ops->name);
        skip();
    }
    ahead_bytes = 0;
    for (unsigned seed = first_seed; seed <= last_seed; seed++)
        follow(ops, seed);
    print_message("%.1f MiB were copied ahead\n", ahead_bytes / 1048576.0);
    assert_int_equal(ahead_bytes > 0, ops->is_concurrent);
}

/* More huge pages are set aside for the operations, where this user may do that. */
static int begin_pool(void **state)
{
    (void)state;
    pool = fopen(POOL, "r+");
    if (!pool)
        return 0;
    flock(fileno(pool), LOCK_EX);
    if (fscanf(pool, "%u", &pool_before) != 1)
        return -1;
    rewind(pool);
    fprintf(pool, "%u", pool_before + POOL_PAGES);
    fflush(pool);
    return 0;
}

static int end_pool(void **state)
{
    (void)state;
    if (!pool)
        return 0;
    rewind(pool);
    fprintf(pool, "%u", pool_before);
    fclose(pool);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4) {
        first_seed = (unsigned)atoi(argv[1]);
        last_seed = last_pool_seed = (unsigned)atoi(argv[2]);
        lines = (unsigned)atoi(argv[3]);
    }
    struct tracker_ops scan = tracker_pagemap_scan, soft = tracker_soft_dirty, book = tracker_bookkeeping;
    struct tracker_ops full = tracker_full;
    const struct CMUnitTest tests[] = {
        {"neighbours, pagemap_scan", test_neighbours_of_a_moved_mapping, NULL, NULL, &scan},
        {"neighbours, soft_dirty", test_neighbours_of_a_moved_mapping, NULL, NULL, &soft},
        {"neighbours, bookkeeping", test_neighbours_of_a_moved_mapping, NULL, NULL, &book},
        cmocka_unit_test(test_huge_pages),
        {"every operation, pagemap_scan", test_every_operation, NULL, NULL, &scan},
        {"every operation, soft_dirty", test_every_operation, NULL, NULL, &soft},
        {"every operation, bookkeeping", test_every_operation, NULL, NULL, &book},
        {"protected, pagemap_scan", test_copies_of_what_is_protected, NULL, NULL, &scan},
        {"protected, soft_dirty", test_copies_of_what_is_protected, NULL, NULL, &soft},
        {"protected, full", test_copies_of_what_is_protected, NULL, NULL, &full},
        {"by a pool, pagemap_scan", test_copies_by_a_pool, NULL, NULL, &scan},
    };
    return cmocka_run_group_tests(tests, begin_pool, end_pool);
}
