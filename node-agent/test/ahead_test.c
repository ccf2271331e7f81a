/*
 * ahead_test.c - which lines are worth copying ahead: page faults tell whether much was written, and hot
 * pages do not count. This process is its own subject.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/uffd.h"
#include "node-agent/capture/faults.h"
#include "node-agent/capture/memory_state.h"
#include "node-agent/test/half.h"
#include "node-agent/test/steps.h"

#define PAGE IMAGE_PAGE_BYTES
#define MEMORY_BYTES (16ull << 20)
#define MUCH_BYTES (8ull << 20)
#define LITTLE_BYTES (1ull << 20)
#define FORECASTS 200 /* at most */

static char *map_memory(void)
{
    char *at = (char *)(uintptr_t)UPPER_BASE;
    assert_ptr_equal(mmap(at, MEMORY_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
                     at);
    madvise(at, MEMORY_BYTES, MADV_NOHUGEPAGE);
    return at;
}

/* A line; its image. The faults of the copying are not the program's. */
static int take(struct memory *memory, uint64_t line, int image)
{
    image = steps_image(steps_capture(memory, line), image, line, false);
    assert_int_equal(faults_read(getpid(), &memory->faults), 0);
    return image;
}

static void test_faults(void **state)
{
    (void)state;
    struct faults before, after;
    char *at = map_memory();
    assert_int_equal(faults_read(getpid(), &before), 0);
    memset(at, 1, MUCH_BYTES);
    assert_int_equal(faults_read(getpid(), &after), 0);
    uint64_t faults = after.minor - before.minor, pages = after.resident_pages - before.resident_pages;
    assert_in_range(faults, MUCH_BYTES / PAGE, MUCH_BYTES / PAGE + 100);
    assert_in_range(pages, MUCH_BYTES / PAGE - 100,
                    MUCH_BYTES / PAGE + 100); /* counted by processor, in batches */
    assert_true(faults_bytes(&before, &after) >= MUCH_BYTES);
    munmap(at, MEMORY_BYTES);
}

/* A child that writes to fresh pages all the time, or does nothing. */
static pid_t start_child(bool is_writing)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    char *at = is_writing ? map_memory() : NULL;
    while (is_writing) {
        memset(at, 1, MEMORY_BYTES);
        madvise(at, MEMORY_BYTES, MADV_DONTNEED);
    }
    pause();
    _exit(0);
}

/* Until the child is in pause(), at most 10 s: the faults of its start would be taken for writing. */
static void wait_asleep(pid_t pid)
{
    char path[32], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    for (int i = 0; i < 10000 && state != 'S'; i++) {
        FILE *stat = fopen(path, "re");
        assert_non_null(stat);
        assert_int_equal(fscanf(stat, "%*d (%*[^)]) %c", &state), 1);
        fclose(stat);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(state, 'S');
}

/* The largest forecast of some: while one is made, the child may wait for a processor. */
static uint64_t forecast(bool is_writing, uint64_t ns)
{
    uint64_t most = 0;
    pid_t pid = start_child(is_writing);
    if (!is_writing)
        wait_asleep(pid);
    for (int i = 0; i < FORECASTS && most <= MEMORY_BYTES; i++) {
        uint64_t bytes = faults_forecast(pid, ns);
        most = bytes > most ? bytes : most;
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return most;
}

static void test_forecast(void **state)
{
    (void)state;
    assert_int_equal(forecast(false, 1000000000), 0);
    assert_true(forecast(true, 10000000000) > MEMORY_BYTES); /* in ten seconds */
    assert_int_equal(faults_forecast(-1, 1000000000), 0);
}

static void test_no_process(void **state)
{
    (void)state;
    struct faults faults;
    assert_int_equal(faults_read(-1, &faults), -1);
}

static void test_little_and_much(void **state)
{
    (void)state;
    if (!tracker_pagemap_scan.works()) {
        print_message("skipped: no pagemap_scan on this kernel\n");
        skip();
    }
    char *hot = map_memory();
    struct memory *memory =
        memory_create(getpid(), &upper_only, &tracker_pagemap_scan, uffd_make(), -1, 0, NULL);
    assert_non_null(memory);
    memset(hot, 1, MEMORY_BYTES);
    assert_false(memory_is_little_written(memory, 1, LITTLE_BYTES)); /* there is no image yet */
    int image = take(memory, 1, -1);
    assert_true(memory_is_little_written(memory, 2, LITTLE_BYTES));
    memset(hot, 2, MUCH_BYTES);
    assert_false(memory_is_little_written(memory, 2, LITTLE_BYTES));
    assert_true(steps_ahead(memory, 2) >= MUCH_BYTES);
    memset(hot, 3, MUCH_BYTES); /* in vain */
    image = take(memory, 2, image);
    memset(hot, 4, MUCH_BYTES);
    assert_true(memory_is_little_written(memory, 3, LITTLE_BYTES));
    memset(hot + MUCH_BYTES, 4, MUCH_BYTES);
    assert_false(memory_is_little_written(memory, 3, LITTLE_BYTES));
    capture_destroy(steps_capture(memory, 3)); /* aborted: its pages are left to the next line */
    assert_false(memory_is_little_written(memory, 4, LITTLE_BYTES));
    close(image);
    memory_unref(memory);
    munmap(hot, MEMORY_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_forecast),
        cmocka_unit_test(test_no_process),
        cmocka_unit_test(test_little_and_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
