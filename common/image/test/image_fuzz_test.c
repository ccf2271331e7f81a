/* image_fuzz_test.c - damaged headers and tables: refused, or all that they say is in bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/test/fuzz.h"

#define ROUNDS 15000
#define BASE UPPER_BASE
#define PAGE IMAGE_PAGE_BYTES
#define ROOM 4096 /* of header, and of tables */

static struct image_writer *make_writer(void)
{
    struct image_writer *writer = image_writer_create();
    struct image_region code = {.start = BASE, .end = BASE + 8 * PAGE, .kind = IMAGE_REGION_FILE, .prot = 5};
    struct image_region data = {.start = BASE + 8 * PAGE, .end = BASE + 64 * PAGE, .kind = IMAGE_REGION_ANON};
    struct image_region low = {.start = 16 * PAGE, .end = 20 * PAGE, .kind = IMAGE_REGION_ANON, .prot = 3};
    assert_int_equal(image_writer_add_region(writer, &low, NULL), 0);
    assert_int_equal(image_writer_add_region(writer, &code, "/usr/lib/libapp.so"), 0);
    assert_int_equal(image_writer_add_region(writer, &data, NULL), 0);
    assert_int_equal(image_writer_set_program(writer, "/home/me/app"), 0);
    return writer;
}

static void place(struct image_run *run, uint64_t address, uint64_t pages)
{
    *run = (struct image_run){address, pages * PAGE, image_offset(address)};
}

/* A whole image with its tables in the second page, or a delta with them in the fourth. */
static int make(bool is_delta)
{
    struct image_run runs[3], drop = {BASE + 30 * PAGE, PAGE, 0}, changed[1];
    struct run_set whole = {.runs = runs, .count = 3}, drops = {.runs = &drop, .count = 1};
    struct image_header header = {.line = 7, .base_line = is_delta ? 6 : 0, .rank = 1, .ranks = 4};
    struct image_writer *writer = make_writer();
    int fd = is_delta ? memfd_create("delta", MFD_CLOEXEC) : image_make_memfd(NULL);
    place(&runs[0], 16 * PAGE, 2);
    place(&runs[1], BASE + 9 * PAGE, 1);
    place(&runs[2], BASE + 20 * PAGE, 3);
    changed[0] = (struct image_run){BASE + 20 * PAGE, 2 * PAGE, PAGE};
    struct run_set changes = {.runs = changed, .count = 1};
    struct image_pages pages = {.runs = &whole};
    if (is_delta) {
        pages = (struct image_pages){&changes, &drops, &whole};
        assert_int_equal(ftruncate(fd, 3 * PAGE), 0);
    }
    assert_int_equal(image_writer_finish(writer, &pages, &header, fd, is_delta ? 3 * PAGE : PAGE, NULL), 0);
    image_writer_destroy(writer);
    return fd;
}

static bool is_mappable(uint64_t start, uint64_t end)
{
    return start < end && end <= LAYOUT_END;
}

static void expect_in_order(const struct image_run *runs, uint64_t count, bool is_whole)
{
    uint64_t end = 0;
    for (uint64_t i = 0; i < count; i++) {
        assert_true(is_mappable(runs[i].address, runs[i].address + runs[i].bytes) && runs[i].address >= end);
        assert_false(is_whole && runs[i].data_offset != image_offset(runs[i].address));
        end = runs[i].address + runs[i].bytes;
    }
}

/* What those who use it rely on. */
static void expect_sound(const struct image_view *view, uint64_t file_bytes)
{
    const struct image_header *header = view->header;
    uint64_t end = 0;
    volatile uint64_t lines = 0; /* each mask and sum can be read */
    size_t texts = strlen(image_string(view, header->program));
    assert_true(header->rank < header->ranks);
    for (uint64_t i = 0; i < header->region_count; i++) {
        const struct image_region *region = &view->regions[i];
        assert_true(is_mappable(region->start, region->end) && region->start >= end);
        texts += strlen(image_string(view, region->path));
        end = region->end;
    }
    assert_true(texts < 1 << 20);
    expect_in_order(view->runs, header->run_count, !header->base_line);
    expect_in_order(view->drops, header->drop_count, false);
    expect_in_order(view->present, header->present_count, true);
    struct image_piece piece = {0};
    while (image_next_piece(view, &piece)) {
        assert_true(piece.run->data_offset >= PAGE &&
                    piece.run->data_offset + piece.data_bytes <= file_bytes);
        for (uint64_t i = 0; piece.masks && i < piece.run->bytes / PAGE; i++)
            lines += piece.masks[i] + piece.sums[i];
    }
}

static unsigned try_damaged(bool is_delta, struct fuzz *fuzz)
{
    uint8_t header[sizeof(struct image_header)], tables[ROOM] = {0};
    off_t at = is_delta ? 3 * PAGE : PAGE;
    int fd = make(is_delta), whole = make(false);
    unsigned accepted = 0;
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(pread(fd, header, sizeof header, 0), sizeof header);
    ssize_t table_bytes = pread(fd, tables, sizeof tables, at);
    size_t used = (size_t)((struct image_header *)(void *)header)->tables_bytes;
    assert_true(table_bytes >= (ssize_t)used);
    for (unsigned round = 0; round < fuzz_rounds(ROUNDS); round++) {
        uint8_t own_header[sizeof header], own_tables[ROOM];
        size_t header_count = sizeof header, tables_count = used;
        struct image_view view;
        memcpy(own_header, header, sizeof header);
        memcpy(own_tables, tables, sizeof tables);
        if (fuzz_below(fuzz, 2))
            fuzz_damage(fuzz, own_header, &header_count, sizeof own_header);
        else
            fuzz_damage(fuzz, own_tables, &tables_count, used);
        /* A length that a cut leaves is for the file: here the rest is as it was. */
        assert_int_equal(pwrite(fd, own_header, sizeof own_header, 0), sizeof own_header);
        assert_int_equal(pwrite(fd, own_tables, used, at), (ssize_t)used);
        if (image_load(fd, &view, NULL) < 0)
            continue;
        accepted++;
        expect_sound(&view, (uint64_t)st.st_size);
        if (view.header->base_line && image_adopt_tables(&view, whole, NULL)) {
            struct image_view made;
            assert_int_equal(image_load(whole, &made, NULL), 0); /* and it is one again */
            image_unload(&made);
        }
        image_unload(&view);
    }
    close(fd);
    close(whole);
    return accepted;
}

static void damaged_images(void **state)
{
    (void)state;
    struct fuzz fuzz = fuzz_begin("damaged images");
    assert_true(try_damaged(false, &fuzz) > ROUNDS / 100);
}

static void damaged_deltas(void **state)
{
    (void)state;
    struct fuzz fuzz = fuzz_begin("damaged deltas");
    assert_true(try_damaged(true, &fuzz) > ROUNDS / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_images),
        cmocka_unit_test(damaged_deltas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
