/* capture_test.c - a child's upper half is captured from outside and compared page by page. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "node-agent/capture/capture.h"
#include "node-agent/capture/memory_state.h"
#include "node-agent/test/half.h"

#define PAGE IMAGE_PAGE_BYTES
#define AT(page) ((char *)(UPPER_BASE + (page)*PAGE))
#define SCATTERED 3000u /* every other page: more runs than one call takes */

/* The child's memory, by pages from UPPER_BASE. */
#define PLAIN 0u        /* 8 pages, 1 and 2 untouched */
#define HIDDEN 16u      /* 4 pages, PROT_NONE after writing */
#define FILE_MAP 32u    /* 3 pages of a file, the middle one changed */
#define DELETED 48u     /* 4 pages of a deleted file of 2 pages */
#define SHARED 64u      /* 2 pages, shared anonymous */
#define SHARED_FILE 80u /* 1 page of the file, shared */
#define MANY 128u       /* SCATTERED * 2 pages */

#define SMALL 128u        /* another child: mappings of a page ... */
#define SMALL_COUNT 600u  /* ... and behind them a large one */
#define LARGE_PAGES 2048u /* 8 MiB */
#define MOST_QUESTIONS 8u

static char file_name[] = "/tmp/belay-capture-XXXXXX";

static char *map(uint64_t page, uint64_t pages, int flags, int fd)
{
    char *at = mmap(AT(page), pages * PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, fd, 0);
    if (at == MAP_FAILED)
        _exit(2);
    return at;
}

static void fill(uint64_t page)
{
    memset(AT(page), (int)(page % 251 + 1), PAGE);
}

static int make_file(char *name, unsigned pages)
{
    char page[PAGE];
    int fd = mkstemp(name);
    for (unsigned i = 0; i < pages; i++) {
        memset(page, 'f', sizeof page);
        if (write(fd, page, sizeof page) != (ssize_t)sizeof page)
            _exit(3);
    }
    return fd;
}

static void be_child(int ready)
{
    char deleted[] = "/tmp/belay-capture-XXXXXX";
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    map(PLAIN, 8, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    for (uint64_t i = 0; i < 8; i++)
        if (i != 1 && i != 2)
            fill(PLAIN + i);
    map(HIDDEN, 4, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    fill(HIDDEN + 1);
    mprotect(AT(HIDDEN), 4 * PAGE, PROT_NONE);
    int fd = open(file_name, O_RDWR);
    map(FILE_MAP, 3, MAP_PRIVATE, fd);
    fill(FILE_MAP + 1);
    if (AT(FILE_MAP)[0] != 'f') /* touched, not changed */
        _exit(4);
    map(SHARED_FILE, 1, MAP_SHARED, fd);
    fd = make_file(deleted, 2);
    map(DELETED, 4, MAP_PRIVATE, fd);
    unlink(deleted);
    fill(DELETED + 1);
    map(SHARED, 2, MAP_SHARED | MAP_ANONYMOUS, -1);
    fill(SHARED);
    map(MANY, 2 * SCATTERED, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    madvise(AT(MANY), 2 * SCATTERED * PAGE, MADV_NOHUGEPAGE);
    for (uint64_t i = 0; i < SCATTERED; i++)
        fill(MANY + 2 * i);
    if (write(ready, "", 1) != 1)
        _exit(5);
    for (;;)
        pause();
}

static pid_t start_child(void (*be)(int ready))
{
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0)
        be(ends[1]);
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    return pid;
}

static const char *page_in(const struct image_view *view, const char *image, uint64_t page)
{
    uint64_t address = UPPER_BASE + page * PAGE;
    for (uint64_t i = 0; i < view->header->run_count; i++) {
        const struct image_run *run = &view->runs[i];
        if (address >= run->address && address < run->address + run->bytes)
            return image + run->data_offset + (address - run->address);
    }
    return NULL;
}

static void expect_filled(const struct image_view *view, const char *image, uint64_t page)
{
    const char *found = page_in(view, image, page);
    assert_non_null(found);
    for (uint64_t i = 0; i < PAGE; i++)
        if ((uint8_t)found[i] != page % 251 + 1)
            fail_msg("page %llu differs at byte %llu", (unsigned long long)page, (unsigned long long)i);
}

static const struct image_region *region_at(const struct image_view *view, uint64_t page)
{
    for (uint64_t i = 0; i < view->header->region_count; i++)
        if (view->regions[i].start == UPPER_BASE + page * PAGE)
            return &view->regions[i];
    fail_msg("no region at page %llu", (unsigned long long)page);
    return NULL;
}

static void check_image(const struct image_view *view, const char *image)
{
    for (uint64_t i = 0; i < 8; i++) {
        if (i == 1 || i == 2)
            assert_null(page_in(view, image, PLAIN + i));
        else
            expect_filled(view, image, PLAIN + i);
    }
    expect_filled(view, image, HIDDEN + 1);
    assert_int_equal(region_at(view, HIDDEN)->prot, PROT_NONE);
    assert_int_equal(region_at(view, FILE_MAP)->kind, IMAGE_REGION_FILE);
    assert_int_equal(region_at(view, FILE_MAP)->file_bytes, 3 * PAGE);
    assert_string_equal(image_string(view, region_at(view, FILE_MAP)->path), file_name);
    assert_null(page_in(view, image, FILE_MAP));
    expect_filled(view, image, FILE_MAP + 1);
    assert_null(page_in(view, image, FILE_MAP + 2));
    assert_int_equal(region_at(view, SHARED_FILE)->kind, IMAGE_REGION_SHARED_FILE);
    assert_null(page_in(view, image, SHARED_FILE));
    assert_int_equal(region_at(view, DELETED)->kind, IMAGE_REGION_ANON);
    assert_int_equal(page_in(view, image, DELETED)[7], 'f'); /* the file will not be there */
    expect_filled(view, image, DELETED + 1);
    assert_int_equal(region_at(view, DELETED + 2)->kind, IMAGE_REGION_BEHIND); /* its end */
    assert_null(page_in(view, image, DELETED + 3));
    assert_int_equal(region_at(view, SHARED)->kind, IMAGE_REGION_SHARED);
    assert_true(region_at(view, SHARED)->inode > 0);
    assert_null(page_in(view, image, SHARED)); /* it is kept elsewhere, once for all who share it */
    for (uint64_t i = 0; i < SCATTERED; i++) {
        expect_filled(view, image, MANY + 2 * i);
        assert_null(page_in(view, image, MANY + 2 * i + 1));
    }
}

static void test_every_page(void **state)
{
    (void)state;
    struct belay_error err = {0};
    struct image_view view;
    int fd = make_file(file_name, 3);
    close(fd);
    pid_t pid = start_child(be_child);
    struct memory *memory = memory_create(pid, &upper_only, &tracker_full, -1, -1, 0, &err);
    assert_non_null(memory);
    struct capture_subject subject = {.memory = memory,
                                      .program = "/usr/bin/app",
                                      .header = {.line = 9, .rank = 1, .ranks = 2, .resume_context = 42}};
    struct capture *capture = capture_create(&subject);
    uint64_t base_line;
    assert_non_null(capture);
    if (capture_plan(capture, &err) < 0 || capture_copy(capture, 1, &err) < 0 ||
        capture_finish(capture, &err) < 0)
        fail_msg("%s", err.text);
    fd = capture_take(capture, &base_line);
    assert_int_equal(base_line, 0);
    uint64_t bytes = image_offset(UPPER_END);
    char *image = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(image, MAP_FAILED);
    if (image_load(fd, &view, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(view.header->line, 9);
    assert_int_equal(view.header->resume_context, 42);
    assert_int_equal(view.header->data_bytes, capture_data_bytes(capture));
    assert_string_equal(image_string(&view, view.header->program), "/usr/bin/app");
    check_image(&view, image);
    image_unload(&view);
    munmap(image, bytes);
    close(fd);
    capture_destroy(capture);
    memory_unref(memory);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    unlink(file_name);
}

static void test_process_is_gone(void **state)
{
    (void)state;
    struct belay_error err = {0};
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    struct memory *memory = memory_create(getpid(), &upper_only, &tracker_full, -1, -1, 0, &err);
    memory->pid = pid;
    struct capture_subject subject = {.memory = memory, .program = "/usr/bin/app", .header = {.ranks = 1}};
    struct capture *capture = capture_create(&subject);
    assert_int_equal(capture_plan(capture, &err), -1);
    assert_true(err.text[0] != '\0');
    capture_destroy(capture);
    memory_unref(memory);
}

static unsigned asked; /* how many mappings the tracker was asked for */

static int count_collect(struct tracker *tracker, const struct mapping *mapping, const struct run_set *known,
                         struct tracker_pages *pages, struct belay_error *err)
{
    asked++;
    return tracker_full.collect(tracker, mapping, known, pages, err);
}

static int count_collect_many(struct tracker *tracker, const struct mapping *mappings, size_t count,
                              const struct run_set *known, struct tracker_pages *pages,
                              struct belay_error *err)
{
    int rc = 0;
    asked++;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        assert_true(i == 0 || mappings[i].region.start == mappings[i - 1].region.end);
        rc = tracker_full.collect(tracker, &mappings[i], known, pages, err);
    }
    return rc;
}

/* In a child: pages that the kernel does not join, and a large mapping behind them. */
static void be_shredded(int ready)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    map(SMALL, SMALL_COUNT, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    for (uint64_t i = 0; i < SMALL_COUNT; i++) {
        fill(SMALL + i);
        mprotect(AT(SMALL + i), PAGE, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE);
    }
    map(SMALL + SMALL_COUNT, LARGE_PAGES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (write(ready, "", 1) != 1)
        _exit(5);
    for (;;)
        pause();
}

static void test_many_small_mappings(void **state)
{
    (void)state;
    struct belay_error err = {0};
    struct tracker_ops ops = tracker_full;
    ops.collect = count_collect;
    ops.collect_many = count_collect_many;
    pid_t pid = start_child(be_shredded);
    struct memory *memory = memory_create(pid, &upper_only, &ops, -1, -1, 0, &err);
    struct capture_subject subject = {.memory = memory, .program = "/usr/bin/app", .header = {.ranks = 1}};
    struct capture *capture = capture_create(&subject);
    assert_int_equal(capture_plan(capture, &err), 0);
    assert_true(capture_maps(capture)->count > SMALL_COUNT);
    assert_int_equal(capture_data_bytes(capture), SMALL_COUNT * PAGE);
    assert_in_range(asked, 2, MOST_QUESTIONS);
    capture_destroy(capture);
    memory_unref(memory);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static int parse(const char *text, struct mapping *mapping)
{
    char line[512];
    snprintf(line, sizeof line, "%s", text);
    static const struct layout layout = {{{0x7df000000000, LAYOUT_END}}};
    return maps_parse_line(line, "", &(struct maps_source){.layout = &layout}, mapping);
}

static void test_maps_lines(void **state)
{
    (void)state;
    struct mapping mapping;
    assert_int_equal(parse("7f0000000000-7f0000001000 rw-p 00000000 00:00 0 ", &mapping), 0);
    assert_int_equal(parse("160000000000-160000001000 rw-p 00000000 00:00 0 [vdso]", &mapping), 0);
    assert_int_equal(parse("nonsense", &mapping), -1);
    assert_int_equal(parse("160000001000-160000000000 rw-p 00000000 00:00 0", &mapping), -1);
    assert_int_equal(parse("160000000000-160000002000 r-xp 00001000 00:00 0 ", &mapping), 1);
    assert_int_equal(mapping.region.prot, PROT_READ | PROT_EXEC);
    assert_int_equal(mapping.content, MAPPING_CONTENT_OWN);
    assert_int_equal(parse("00400000-00401000 rw-p 00000000 00:00 0 [heap]", &mapping), 1);
    assert_int_equal(mapping.region.kind, IMAGE_REGION_ANON);
    assert_int_equal(parse("7defffffe000-7df000000000 rw-p 00000000 00:00 0 ", &mapping), 1);
    assert_int_equal(parse("7defffffe000-7df000001000 rw-p 00000000 00:00 0 ", &mapping), 0);
    assert_int_equal(parse("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]", &mapping),
                     0);
    assert_int_equal(parse("160000000000-160000002000 rw-s 00000000 00:05 9 /dev/zero (deleted)", &mapping),
                     1);
    assert_int_equal(mapping.region.kind, IMAGE_REGION_SHARED);
    assert_int_equal(mapping.content, MAPPING_CONTENT_NONE);
    assert_int_equal(mapping.region.device, makedev(0, 5));
    assert_int_equal(mapping.region.inode, 9);
    assert_string_equal(mapping.path, "/dev/zero (deleted)");
    free(mapping.path);
    assert_int_equal(
        parse("160000000000-160000002000 rw-s 00001000 00:01 32769 /SYSV00000000 (deleted)", &mapping), 1);
    assert_int_equal(mapping.region.kind, IMAGE_REGION_SEGMENT);
    assert_int_equal(mapping.region.file_offset, 0x1000);
    free(mapping.path);
    assert_int_equal(parse("160000000000-160000002000 rw-p 00000000 00:01 9 /memfd:a b (deleted)", &mapping),
                     1);
    assert_int_equal(mapping.region.kind, IMAGE_REGION_ANON);
    assert_int_equal(mapping.content, MAPPING_CONTENT_ALL);
    assert_int_equal(parse("160000000000-160000002000 r--p 00003000 08:01 9 /proc/self/maps", &mapping), 1);
    assert_int_equal(mapping.region.kind, IMAGE_REGION_FILE);
    assert_int_equal(mapping.region.file_offset, 0x3000);
    assert_string_equal(mapping.path, "/proc/self/maps");
    free(mapping.path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_page),
        cmocka_unit_test(test_process_is_gone),
        cmocka_unit_test(test_many_small_mappings),
        cmocka_unit_test(test_maps_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
