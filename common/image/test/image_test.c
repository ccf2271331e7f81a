/* image_test.c - an image is written, read back, and refused when anything in it is out of bounds. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/image/sums.h"

#define BASE UPPER_BASE
#define PAGE IMAGE_PAGE_BYTES

static struct image_run run_table[2] = {{BASE + 5 * PAGE, PAGE, 0}, {BASE + 16 * PAGE, 3 * PAGE, 0}};
static const struct run_set runs = {.runs = run_table, .count = 2};
static const struct image_pages pages = {.runs = &runs};

static struct image_writer *make_writer(void)
{
    struct image_writer *writer = image_writer_create();
    assert_non_null(writer);
    struct image_region code = {.start = BASE,
                                .end = BASE + 4 * PAGE,
                                .kind = IMAGE_REGION_FILE,
                                .prot = 5,
                                .file_offset = PAGE,
                                .file_bytes = 12345,
                                .file_mtime_ns = 99};
    struct image_region data = {.start = BASE + 4 * PAGE, .end = BASE + 8 * PAGE, .kind = IMAGE_REGION_FILE};
    struct image_region heap = {
        .start = BASE + 16 * PAGE, .end = BASE + 32 * PAGE, .kind = IMAGE_REGION_ANON};
    assert_int_equal(image_writer_add_region(writer, &code, "/usr/lib/libapp.so"), 0);
    assert_int_equal(image_writer_add_region(writer, &data, "/usr/lib/libapp.so"), 0);
    assert_int_equal(image_writer_add_region(writer, &heap, NULL), 0);
    assert_int_equal(image_writer_set_program(writer, "/home/me/app"), 0);
    for (size_t i = 0; i < runs.count; i++)
        run_table[i].data_offset = image_offset(run_table[i].address);
    return writer;
}

/* A whole image; the caller closes it. */
static int make_image(void)
{
    struct image_writer *writer = make_writer();
    struct image_header header = {.line = 7,
                                  .rank = 2,
                                  .ranks = 4,
                                  .resume_context = BASE + 64,
                                  .layout_version = 3,
                                  .identity = {1, 2, 3}};
    struct belay_error err = {0};
    int fd = image_make_memfd(&err);
    assert_true(fd >= 0);
    assert_int_equal(image_writer_finish(writer, &pages, &header, fd, PAGE, &err), 0);
    image_writer_destroy(writer);
    return fd;
}

static void test_round_trip(void **state)
{
    (void)state;
    int fd = make_image();
    struct image_view view;
    struct belay_error err = {0};
    assert_int_equal(image_load(fd, &view, &err), 0);
    assert_int_equal(view.header->line, 7);
    assert_int_equal(view.header->base_line, 0);
    assert_int_equal(view.header->rank, 2);
    assert_int_equal(view.header->identity[2], 3);
    assert_int_equal(view.header->layout_version, 3);
    assert_int_equal(view.header->region_count, 3);
    assert_int_equal(view.header->data_bytes, 4 * PAGE);
    assert_int_equal(view.regions[0].file_bytes, 12345);
    assert_string_equal(image_string(&view, view.regions[1].path), "/usr/lib/libapp.so");
    assert_int_equal(view.regions[0].path, view.regions[1].path);
    assert_string_equal(image_string(&view, view.regions[2].path), "");
    assert_string_equal(image_string(&view, view.header->program), "/home/me/app");
    assert_int_equal(view.runs[1].address, BASE + 16 * PAGE);
    image_unload(&view);
    close(fd);
}

/* What a delta says becomes the image's tables. */
static void test_delta_brings_its_tables(void **state)
{
    (void)state;
    struct image_run changed = {BASE + 17 * PAGE, PAGE, PAGE}, gone = {BASE + 5 * PAGE, PAGE, 0};
    struct run_set changes = {.runs = &changed, .count = 1}, drops = {.runs = &gone, .count = 1},
                   present = {.runs = &run_table[1], .count = 1};
    struct image_pages of = {&changes, &drops, &present};
    struct image_writer *writer = make_writer();
    struct image_header header = {.line = 8, .base_line = 7, .rank = 2, .ranks = 4};
    struct image_view delta, view;
    int fd = make_image(), delta_fd = memfd_create("delta", MFD_CLOEXEC);
    char page[PAGE];
    uint64_t sum;
    memset(page, 7, sizeof page);
    sums_make(&sum, changed.address, page, PAGE);
    assert_int_equal(image_writer_finish(writer, &of, &header, delta_fd, 2 * PAGE, NULL),
                     -1); /* no page data */
    assert_int_equal(pwrite(delta_fd, page, PAGE, PAGE), (ssize_t)PAGE);
    assert_int_equal(image_writer_finish(writer, &of, &header, delta_fd, 2 * PAGE, NULL), 0);
    assert_int_equal(image_load(delta_fd, &delta, NULL), 0);
    assert_int_equal(delta.header->base_line, 7);
    assert_int_equal(delta.header->sum_count, 1);
    assert_true(delta.sums[0] == sum);
    assert_int_equal(delta.drops[0].address, BASE + 5 * PAGE);
    uint64_t bytes = image_adopt_tables(&delta, fd, NULL);
    assert_int_equal(image_load(fd, &view, NULL), 0);
    assert_int_equal(view.header->line, 8);
    assert_int_equal(view.header->base_line, 0);
    assert_int_equal(view.header->total_bytes, bytes);
    assert_int_equal(view.header->run_count, 1);
    assert_int_equal(view.header->drop_count + view.header->present_count, 0);
    assert_int_equal(view.runs[0].data_offset, image_offset(BASE + 16 * PAGE));
    assert_string_equal(image_string(&view, view.regions[0].path), "/usr/lib/libapp.so");
    image_unload(&view);
    image_unload(&delta);
    image_writer_destroy(writer);
    close(delta_fd);
    close(fd);
}

static void refuse(size_t offset, uint64_t value, size_t width)
{
    int fd = make_image();
    struct image_view view;
    struct belay_error err = {0};
    assert_int_equal(pwrite(fd, &value, width, (off_t)offset), (ssize_t)width);
    assert_int_equal(image_load(fd, &view, &err), -1);
    assert_int_equal(errno, EINVAL);
    assert_true(err.text[0] != '\0');
    close(fd);
}

#define REFUSE(field, value)                                                                                 \
    refuse(offsetof(struct image_header, field), value, sizeof((struct image_header){0}.field))

static void test_damage_is_refused(void **state)
{
    (void)state;
    REFUSE(magic, 1);
    REFUSE(version, 1);
    REFUSE(header_bytes, 8);
    REFUSE(rank, 4);
    REFUSE(region_count, UINT64_MAX / 8);
    REFUSE(region_count, 1000);
    REFUSE(region_offset, 3);
    REFUSE(run_count, 1ull << 60);
    REFUSE(run_offset, UINT64_MAX - 7);
    REFUSE(strings_bytes, 0);
    REFUSE(strings_bytes, 1ull << 33);
    REFUSE(strings_offset, 1ull << 40);
    REFUSE(tables_offset, 1ull << 60);
    REFUSE(tables_bytes, 1ull << 33);
    REFUSE(drop_count, 1ull << 40);
    REFUSE(present_offset, 4);
    REFUSE(data_bytes, UINT64_MAX - 4095);
    REFUSE(total_bytes, 1);
    REFUSE(program, 1000000);
    size_t region = PAGE, run = region + 3 * sizeof(struct image_region);
    refuse(region + offsetof(struct image_region, end), BASE + 5 * PAGE, 8);
    refuse(region + offsetof(struct image_region, kind), 9, 4);
    refuse(region + offsetof(struct image_region, path), 1u << 30, 4);
    refuse(run + offsetof(struct image_run, address), BASE + 9 * PAGE, 8);
    refuse(run + offsetof(struct image_run, bytes), 100 * PAGE, 8);
    refuse(run + offsetof(struct image_run, data_offset), 0, 8);
    refuse(run + offsetof(struct image_run, data_offset), image_offset(BASE + 6 * PAGE), 8);
    size_t last = region + 2 * sizeof(struct image_region);
    refuse(last + offsetof(struct image_region, end), LAYOUT_END + PAGE, 8);
    refuse(last + offsetof(struct image_region, end), UINT64_MAX - PAGE + 1, 8);
    refuse(run + offsetof(struct image_run, data_offset), UINT64_MAX - 4095, 8);
}

static void test_short_images_are_refused(void **state)
{
    (void)state;
    struct image_view view;
    char bytes[5000];
    int whole = make_image();
    assert_int_equal(ftruncate(whole, 4096), -1); /* sealed: processes map it */
    assert_int_equal(image_check_memfd(whole, NULL), 0);
    assert_int_equal(pread(whole, bytes, sizeof bytes, 0), sizeof bytes);
    for (size_t length = 0; length < sizeof bytes; length += 97) {
        int fd = memfd_create("short", MFD_CLOEXEC);
        assert_int_equal(pwrite(fd, bytes, length, 0), (ssize_t)length);
        assert_int_equal(image_load(fd, &view, NULL), -1);
        assert_int_equal(image_check_memfd(fd, NULL), -1);
        close(fd);
    }
    close(whole);
}

static void test_order_is_enforced(void **state)
{
    (void)state;
    struct image_writer *writer = make_writer();
    struct image_region early = {.start = BASE, .end = BASE + PAGE, .kind = IMAGE_REGION_ANON};
    assert_int_equal(image_writer_add_region(writer, &early, NULL), -1);
    image_writer_destroy(writer);
    image_writer_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),        cmocka_unit_test(test_delta_brings_its_tables),
        cmocka_unit_test(test_damage_is_refused), cmocka_unit_test(test_short_images_are_refused),
        cmocka_unit_test(test_order_is_enforced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
