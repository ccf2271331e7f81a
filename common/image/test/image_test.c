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

#define BASE 0x120000000000ull
#define PAGE IMAGE_PAGE_BYTES

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
    assert_int_equal(image_writer_add_run(writer, BASE + 5 * PAGE, PAGE), 0);
    assert_int_equal(image_writer_add_region(writer, &heap, NULL), 0);
    assert_int_equal(image_writer_add_run(writer, BASE + 16 * PAGE, 3 * PAGE), 0);
    assert_int_equal(image_writer_set_program(writer, "/home/me/app"), 0);
    return writer;
}

/* A whole image in memory that the caller frees; *bytes is the length of its head. */
static char *make_image(size_t *bytes)
{
    struct image_writer *writer = make_writer();
    struct image_header header = {.line = 7,
                                  .rank = 2,
                                  .ranks = 4,
                                  .resume_context = BASE + 64,
                                  .layout_version = 3,
                                  .identity = {1, 2, 3}};
    int fd = memfd_create("image", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(image_writer_finish(writer, &header, fd, NULL), 0);
    size_t count;
    const struct image_run *runs = image_writer_runs(writer, &count);
    assert_int_equal(count, 2);
    assert_int_equal(runs[1].data_offset, runs[0].data_offset + PAGE);
    assert_int_equal(image_writer_total_bytes(writer), runs[0].data_offset + 4 * PAGE);
    *bytes = runs[0].data_offset;
    char *image = malloc(*bytes);
    assert_int_equal(pread(fd, image, *bytes, 0), (ssize_t)*bytes);
    close(fd);
    image_writer_destroy(writer);
    return image;
}

static void test_round_trip(void **state)
{
    (void)state;
    size_t bytes;
    char *image = make_image(&bytes);
    struct image_view view;
    struct belay_error err = {0};
    assert_int_equal(image_open(image, bytes, &view, &err), 0);
    assert_int_equal(view.header->line, 7);
    assert_int_equal(view.header->rank, 2);
    assert_int_equal(view.header->identity[2], 3);
    assert_int_equal(view.header->layout_version, 3);
    assert_int_equal(view.header->region_count, 3);
    assert_int_equal(view.regions[0].file_bytes, 12345);
    assert_string_equal(image_string(&view, view.regions[1].path), "/usr/lib/libapp.so");
    assert_int_equal(view.regions[0].path, view.regions[1].path);
    assert_string_equal(image_string(&view, view.regions[2].path), "");
    assert_string_equal(image_string(&view, view.header->program), "/home/me/app");
    assert_int_equal(view.runs[1].address, BASE + 16 * PAGE);
    free(image);
}

static void refuse(size_t offset, uint64_t value, size_t width)
{
    size_t bytes;
    char *image = make_image(&bytes);
    struct image_view view;
    struct belay_error err = {0};
    memcpy(image + offset, &value, width);
    assert_int_equal(image_open(image, bytes, &view, &err), -1);
    assert_int_equal(errno, EINVAL);
    assert_true(err.text[0] != '\0');
    free(image);
}

#define REFUSE(field, value)                                                                                 \
    refuse(offsetof(struct image_header, field), value, sizeof((struct image_header){0}.field))

static void test_damage_is_refused(void **state)
{
    (void)state;
    REFUSE(magic, 1);
    REFUSE(version, 2);
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
    REFUSE(data_offset, 1ull << 40);
    REFUSE(data_bytes, UINT64_MAX - 4095);
    REFUSE(total_bytes, 1);
    REFUSE(program, 1000000);
    size_t region = sizeof(struct image_header), run = region + 3 * sizeof(struct image_region);
    refuse(region + offsetof(struct image_region, end), BASE + 5 * PAGE, 8);
    refuse(region + offsetof(struct image_region, kind), 9, 4);
    refuse(region + offsetof(struct image_region, path), 1u << 30, 4);
    refuse(run + offsetof(struct image_run, address), BASE + 9 * PAGE, 8);
    refuse(run + offsetof(struct image_run, bytes), 100 * PAGE, 8);
    refuse(run + offsetof(struct image_run, data_offset), 0, 8);
    refuse(run + offsetof(struct image_run, data_offset), UINT64_MAX - 4095, 8);
}

static void test_short_images_are_refused(void **state)
{
    (void)state;
    size_t bytes;
    char *image = make_image(&bytes);
    struct image_view view;
    for (size_t length = 0; length < bytes; length += 97) {
        char *part = malloc(length ? length : 1); /* of its own, so that a sanitizer sees a read beyond */
        memcpy(part, image, length);
        assert_int_equal(image_open(part, length, &view, NULL), -1);
        free(part);
    }
    free(image);
}

static void test_order_is_enforced(void **state)
{
    (void)state;
    struct image_writer *writer = make_writer();
    struct image_region early = {.start = BASE, .end = BASE + PAGE, .kind = IMAGE_REGION_ANON};
    assert_int_equal(image_writer_add_region(writer, &early, NULL), -1);
    assert_int_equal(image_writer_add_run(writer, BASE + 16 * PAGE, PAGE), -1);
    assert_int_equal(image_writer_add_run(writer, BASE + 20 * PAGE, 100), -1);
    assert_int_equal(image_writer_add_run(writer, BASE + 100 * PAGE, PAGE), 0);
    struct image_header header = {.line = 1, .ranks = 1};
    int fd = memfd_create("image", MFD_CLOEXEC);
    assert_int_equal(image_writer_finish(writer, &header, fd, NULL), -1); /* a run outside all regions */
    close(fd);
    image_writer_destroy(writer);
    image_writer_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damage_is_refused),
        cmocka_unit_test(test_short_images_are_refused),
        cmocka_unit_test(test_order_is_enforced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
