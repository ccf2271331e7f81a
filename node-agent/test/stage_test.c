/*
 * stage_test.c - what is staged from line to line: a page that is written again keeps its place, hot pages
 * are tried again part by part, its memory is made and given back between lines, and the next epoch's memory
 * takes over the staging area.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/util/uffd.h"
#include "node-agent/capture/buffer.h"
#include "node-agent/capture/capture.h"
#include "node-agent/capture/memory_state.h"
#include "node-agent/test/half.h"
#include "node-agent/test/steps.h"

#define MEMORY_BYTES ((136ull << 20) + 3 * IMAGE_PAGE_BYTES) /* no multiple of four pages */
#define PAGES (MEMORY_BYTES / IMAGE_PAGE_BYTES)
#define SLACK_BYTES (4ull << 20) /* tables, and what else the process writes to */
#define LINES 9u                 /* after so many some hot pages are tried again */

static struct memory *memory;
static char *at;
static int image;

/* A first line, of everything. */
static int set_up(void **state)
{
    (void)state;
    if (!tracker_pagemap_scan.works())
        return 0;
    at = mmap((char *)(uintptr_t)UPPER_BASE, MEMORY_BYTES, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_ptr_equal(at, (char *)(uintptr_t)UPPER_BASE);
    madvise(at, MEMORY_BYTES, MADV_NOHUGEPAGE);
    memory = memory_create(getpid(), &upper_only, &tracker_pagemap_scan, uffd_make(), -1, 0, NULL);
    assert_non_null(memory);
    memset(at, 1, MEMORY_BYTES);
    image = steps_image(steps_capture(memory, 1), -1, 1, false);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (!tracker_pagemap_scan.works())
        return 0;
    close(image);
    memory_unref(memory);
    return munmap(at, MEMORY_BYTES);
}

/* Everything is written before it is copied ahead, and again afterwards. Returns what was copied ahead. */
static uint64_t take_in_vain(uint64_t line)
{
    memset(at, (int)line, MEMORY_BYTES);
    uint64_t bytes = steps_ahead(memory, line);
    memset(at, (int)line + 1, MEMORY_BYTES);
    image = steps_image(steps_capture(memory, line), image, line, false);
    return bytes;
}

static void test_places_are_kept(void **state)
{
    (void)state;
    if (!tracker_pagemap_scan.works())
        skip();
    memset(at, 2, MEMORY_BYTES);
    assert_true(steps_ahead(memory, 2) >= MEMORY_BYTES);
    memset(at, 3, MEMORY_BYTES);
    steps_ahead(memory, 2);
    assert_in_range(stage_bytes(memory->stage), MEMORY_BYTES, MEMORY_BYTES + SLACK_BYTES);
    assert_in_range(stage_held_bytes(memory->stage, true), MEMORY_BYTES, MEMORY_BYTES + SLACK_BYTES);
}

static void test_hot_pages_are_tried_in_parts(void **state)
{
    (void)state;
    uint64_t tried = 0;
    if (!tracker_pagemap_scan.works())
        skip();
    assert_true(take_in_vain(2) >= MEMORY_BYTES);
    for (uint64_t line = 3; line < 3 + 2 * LINES; line++) {
        uint64_t bytes = take_in_vain(line);
        assert_in_range(bytes, 0, MEMORY_BYTES / 2 + SLACK_BYTES);
        tried += bytes;
    }
    assert_in_range(tried, MEMORY_BYTES / 2 - SLACK_BYTES, MEMORY_BYTES / 2 + 2 * LINES * SLACK_BYTES);
}

static uint64_t faults_of_writing(int value)
{
    struct faults before, after;
    assert_int_equal(faults_read(getpid(), &before), 0);
    memset(at, value, MEMORY_BYTES);
    assert_int_equal(faults_read(getpid(), &after), 0);
    return after.minor - before.minor;
}

/* A line; returns what it has copied. */
static uint64_t take(uint64_t line)
{
    struct capture *capture = steps_capture(memory, line);
    uint64_t bytes = capture_data_bytes(capture);
    image = steps_image(capture, image, line, false);
    return bytes;
}

/* Writing to them after a line costs nothing, until they have cooled: then they are copied no more. */
static void test_hot_pages_are_left_alone(void **state)
{
    (void)state;
    if (!tracker_pagemap_scan.works())
        skip();
    take_in_vain(2);
    assert_true(faults_of_writing(3) >= PAGES); /* hot from the next line on */
    take(3);
    assert_in_range(faults_of_writing(4), PAGES / 16, PAGES / 4);
    assert_true(take(4) >= MEMORY_BYTES);
    for (uint64_t line = 5; line < 5 + LINES; line++)
        take(line);
    assert_in_range(take(5 + LINES), 0, SLACK_BYTES);
    assert_true(faults_of_writing(5) >= PAGES);
}

/* What follows may be as much again, as after a restart; but not for ever. */
static void test_memory_outlasts_small_deltas(void **state)
{
    (void)state;
    uint64_t line = 3;
    if (!tracker_pagemap_scan.works())
        skip();
    memset(at, 2, MEMORY_BYTES);
    take(2);
    for (; line < 2 + BUFFER_LINES; line++)
        assert_in_range(take(line), 0, SLACK_BYTES);
    assert_true(stage_held_bytes(memory->stage, true) >= MEMORY_BYTES);
    assert_in_range(take(line), 0, SLACK_BYTES);
    assert_in_range(stage_held_bytes(memory->stage, true), 0, MEMORY_BYTES / 2);
}

/* What the process has written by now has its memory before the next line begins. */
static void test_memory_is_made_before_a_line(void **state)
{
    (void)state;
    if (!tracker_pagemap_scan.works())
        skip();
    take(2);
    memory_prepare(memory, UINT64_MAX);
    assert_in_range(stage_held_bytes(memory->stage, true), 0, SLACK_BYTES);
    memset(at, 2, MEMORY_BYTES);
    memory_prepare(memory, MEMORY_BYTES / 2); /* too little room */
    assert_in_range(stage_held_bytes(memory->stage, true), 0, SLACK_BYTES);
    memory_prepare(memory, UINT64_MAX);
    uint64_t held_bytes = stage_held_bytes(memory->stage, true);
    assert_in_range(held_bytes, MEMORY_BYTES, MEMORY_BYTES + SLACK_BYTES);
    assert_true(take(3) >= MEMORY_BYTES);
    assert_int_equal(stage_held_bytes(memory->stage, true), held_bytes);
}

/* Where memory is short, a line keeps what it needs itself. */
static void test_memory_is_given_back(void **state)
{
    (void)state;
    if (!tracker_pagemap_scan.works())
        skip();
    memset(at, 2, MEMORY_BYTES);
    take(2);
    memset(at, 3, MEMORY_BYTES / 4);
    struct capture *capture = steps_capture(memory, 3);
    assert_true(stage_held_bytes(memory->stage, true) >= MEMORY_BYTES);
    capture_give_back(capture);
    assert_in_range(stage_held_bytes(memory->stage, true), capture_bytes(capture),
                    capture_bytes(capture) + SLACK_BYTES);
    image = steps_image(capture, image, 3, false);
}

/* Which memfd deltas are staged in. */
static ino_t buffer_of(const struct memory *of)
{
    struct stat st;
    assert_int_equal(fstat(stage_fd(of->stage, true), &st), 0);
    return st.st_ino;
}

static void test_inheritance(void **state)
{
    (void)state;
    if (!tracker_pagemap_scan.works())
        skip();
    take_in_vain(2);
    take_in_vain(3); /* of what line 2 found to be hot */
    ino_t staging = buffer_of(memory);
    struct memory *next =
        memory_create(getpid(), &upper_only, &tracker_pagemap_scan, uffd_make(), image, 3, NULL);
    assert_non_null(next);
    memory_inherit(next, memory);
    assert_int_equal(buffer_of(next), staging);
    assert_int_equal(stage_fd(memory->stage, true), -1);
    assert_true(runs_bytes(hot_pages(next->hot)) >= MEMORY_BYTES);
    memory_unref(memory);
    memory = next;
    assert_in_range(take_in_vain(4), 0, SLACK_BYTES);
    assert_int_equal(buffer_of(memory), staging);
}

/* A line was aborted, and its capture comes to its copying when another line has begun. */
static void test_places_of_another_line_are_left_alone(void **state)
{
    (void)state;
    struct belay_error err = {0};
    if (!tracker_pagemap_scan.works())
        skip();
    struct capture_subject subject = {.memory = memory, .program = "test", .header = {.line = 2, .ranks = 1}};
    struct capture *late = capture_create(&subject);
    memset(at, 2, MEMORY_BYTES);
    assert_int_equal(capture_plan(late, &err), 0);
    struct capture *next = steps_capture(memory, 3);
    assert_int_equal(capture_copy(late, 1, &err), -1);
    assert_int_equal(err.code, ECANCELED);
    capture_destroy(late);
    image = steps_image(next, image, 3, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_places_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hot_pages_are_tried_in_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hot_pages_are_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_outlasts_small_deltas, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_is_made_before_a_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_is_given_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_inheritance, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_places_of_another_line_are_left_alone, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
