/* sums_test.c - a bit that flips anywhere in an image is found, and the page that it is in. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/image/sums.h"

#define PAGE IMAGE_PAGE_BYTES
#define PAGES 600u /* more than are compared at once */
#define FAR (UPPER_BASE + (1ull << 40))

static struct image_run run_table[] = {{UPPER_BASE + 3 * PAGE, PAGES *PAGE, 0}, {FAR, PAGE, 0}};

static int make_image(void)
{
    static char page[PAGE];
    struct run_set runs = {.runs = run_table, .count = 2};
    struct image_pages pages = {.runs = &runs};
    struct image_header header = {.line = 7, .rank = 2, .ranks = 4};
    struct image_writer *writer = image_writer_create();
    int fd = image_make_memfd(NULL);
    for (size_t i = 0; i < runs.count; i++) {
        struct image_run *run = &run_table[i];
        struct image_region region = {
            .start = run->address, .end = run->address + run->bytes, .kind = IMAGE_REGION_ANON};
        run->data_offset = image_offset(run->address);
        assert_int_equal(image_writer_add_region(writer, &region, NULL), 0);
        for (uint64_t at = 0; at < run->bytes; at += PAGE) {
            memset(page, (int)(at / PAGE), sizeof page);
            assert_int_equal(image_write_pages(fd, run->address + at, page, PAGE, NULL), 0);
        }
    }
    assert_int_equal(image_writer_finish(writer, &pages, &header, fd, PAGE, NULL), 0);
    image_writer_destroy(writer);
    return fd;
}

/* 0, or -1 with err, as of sums_check(). */
static int check(int fd, struct belay_error *err)
{
    struct image_view view;
    assert_int_equal(image_load(fd, &view, NULL), 0);
    int rc = sums_check(fd, &view, NULL, err);
    image_unload(&view);
    return rc;
}

static void flip(int fd, uint64_t offset, int bit)
{
    char byte;
    assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
    byte ^= (char)(1 << bit);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
}

static void expect_found(int fd, uint64_t offset, const char *words)
{
    struct belay_error err = {0};
    flip(fd, offset, (int)(offset % 8));
    assert_int_equal(check(fd, &err), -1);
    assert_int_equal(err.code, EBADMSG);
    assert_non_null(strstr(err.text, words));
    flip(fd, offset, (int)(offset % 8));
    assert_int_equal(check(fd, NULL), 0);
}

static void test_each_bit_counts(void **state)
{
    (void)state;
    int fd = make_image();
    char place[64];
    assert_int_equal(check(fd, NULL), 0);
    const uint64_t pages[] = {run_table[0].address, run_table[0].address + 511 * PAGE,
                              run_table[0].address + (PAGES - 1) * PAGE, FAR};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        snprintf(place, sizeof place, "the page at 0x%llx", (unsigned long long)pages[i]);
        expect_found(fd, image_offset(pages[i]), place);
        expect_found(fd, image_offset(pages[i]) + 2049, place);
        expect_found(fd, image_offset(pages[i]) + PAGE - 1, place);
        expect_found(fd, sums_offset(pages[i]) + 5, place);
    }
    expect_found(fd, offsetof(struct image_header, resume_context) + 3, "its tables");
    expect_found(fd, offsetof(struct image_header, identity) + 7, "its tables");
    expect_found(fd, PAGE + offsetof(struct image_region, prot), "its tables"); /* of the first region */
    close(fd);
}

/* What lies at another place than it was captured from is not that page. */
static void test_pages_that_change_places(void **state)
{
    (void)state;
    struct belay_error err = {0};
    int fd = make_image();
    char one[PAGE], sum[8];
    uint64_t from = run_table[0].address + 4 * PAGE, to = run_table[0].address + 5 * PAGE;
    assert_int_equal(pread(fd, one, PAGE, (off_t)image_offset(from)), (ssize_t)PAGE);
    assert_int_equal(pread(fd, sum, sizeof sum, (off_t)sums_offset(from)), (ssize_t)sizeof sum);
    assert_int_equal(pwrite(fd, one, PAGE, (off_t)image_offset(to)), (ssize_t)PAGE);
    assert_int_equal(pwrite(fd, sum, sizeof sum, (off_t)sums_offset(to)), (ssize_t)sizeof sum);
    assert_int_equal(check(fd, &err), -1);
    assert_int_equal(err.code, EBADMSG);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_bit_counts),
        cmocka_unit_test(test_pages_that_change_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
