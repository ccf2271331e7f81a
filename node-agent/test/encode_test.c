/*
 * encode_test.c - deltas by lines make the same images as deltas by pages, byte by byte, with the same sums
 * and roots; what each kind of page costs; damaged ones are refused or found.
 */
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
#include "common/image/lines.h"
#include "common/image/root.h"
#include "common/image/sums.h"
#include "common/test/fuzz.h"
#include "node-agent/delta/encode.h"
#include "node-agent/store/apply.h"

#define PAGE IMAGE_PAGE_BYTES
#define PAGES 300u /* more than are compared at once */
#define REGION_PAGES 110u
#define BASE UPPER_BASE
#define ROUNDS 300u

/* The memory of a rank at a line: its pages, and which of them the image has. */
struct memory {
    uint8_t pages[PAGES][PAGE];
    bool is_there[PAGES];
};

static struct memory before, after;

/* What a line did to a page. */
enum deed {
    DEED_NONE,
    DEED_SAME,
    DEED_BYTE,
    DEED_SOME,
    DEED_ALL,
    DEED_ZEROS,
    DEED_SPARSE,
    DEED_GONE,
    DEED_KINDS
};
static enum deed deeds[PAGES];

static void fill(uint8_t *page)
{
    for (size_t i = 0; i < PAGE; i++)
        page[i] = (uint8_t)(1 + rand() % 255);
}

static void make_before(unsigned seed)
{
    srand(seed);
    for (unsigned i = 0; i < PAGES; i++) {
        before.is_there[i] = rand() % 8 > 0;
        memset(before.pages[i], 0, PAGE);
        if (before.is_there[i])
            fill(before.pages[i]);
    }
}

static void do_deed(unsigned i, enum deed deed)
{
    deeds[i] = deed;
    after.is_there[i] |= deed != DEED_NONE;
    if (deed == DEED_BYTE)
        after.pages[i][rand() % PAGE] ^= 0x55;
    for (unsigned n = 0; deed == DEED_SOME && n < 30; n++)
        after.pages[i][rand() % PAGE] ^= 0x11;
    if (deed == DEED_ALL)
        fill(after.pages[i]);
    if (deed >= DEED_ZEROS)
        memset(after.pages[i], 0, PAGE);
    if (deed == DEED_SPARSE)
        after.pages[i][rand() % PAGE] = 7;
    if (deed == DEED_GONE)
        after.is_there[i] = false;
}

static void add(struct run_set *set, unsigned page, uint64_t offset)
{
    struct image_run *last = set->count > 0 ? &set->runs[set->count - 1] : NULL;
    uint64_t address = BASE + page * PAGE;
    if (last && page % REGION_PAGES > 0 && last->address + last->bytes == address &&
        last->data_offset + last->bytes == offset)
        last->bytes += PAGE;
    else
        assert_int_equal(runs_push(set, &(struct image_run){address, PAGE, offset}), 0);
}

static int finish(const struct image_pages *pages, uint64_t line, uint64_t base_line, int fd, uint64_t tables)
{
    struct image_header header = {.line = line, .base_line = base_line, .rank = 1, .ranks = 2};
    struct image_region region = {.kind = IMAGE_REGION_ANON};
    struct image_writer *writer = image_writer_create();
    for (unsigned page = 0; page < PAGES; page += REGION_PAGES) {
        unsigned end = page + REGION_PAGES < PAGES ? page + REGION_PAGES : PAGES;
        region.start = BASE + page * PAGE;
        region.end = BASE + end * PAGE;
        assert_int_equal(image_writer_add_region(writer, &region, NULL), 0);
    }
    assert_int_equal(image_writer_finish(writer, pages, &header, fd, tables, NULL), 0);
    image_writer_destroy(writer);
    return fd;
}

static int make_image(const struct memory *memory, uint64_t line)
{
    struct run_set runs = {0};
    int fd = image_make_memfd(NULL);
    for (unsigned i = 0; i < PAGES; i++)
        if (memory->is_there[i]) {
            add(&runs, i, image_offset(BASE + i * PAGE));
            assert_int_equal(image_write_pages(fd, BASE + i * PAGE, memory->pages[i], PAGE, NULL), 0);
        }
    finish(&(struct image_pages){.runs = &runs}, line, 0, fd, PAGE);
    runs_release(&runs);
    return fd;
}

/* In whole pages, as a capture makes it. */
static int make_delta(void)
{
    struct run_set runs = {0}, drops = {0}, present = {0};
    int fd = memfd_create("delta", MFD_CLOEXEC);
    uint64_t at = PAGE;
    for (unsigned i = 0; i < PAGES; i++) {
        if (after.is_there[i])
            add(&present, i, image_offset(BASE + i * PAGE));
        if (deeds[i] == DEED_GONE)
            add(&drops, i, 0);
        if (deeds[i] == DEED_NONE || deeds[i] == DEED_GONE)
            continue;
        add(&runs, i, at);
        assert_int_equal(pwrite(fd, after.pages[i], PAGE, (off_t)at), (ssize_t)PAGE);
        at += PAGE;
    }
    for (size_t i = 0; i < drops.count; i++)
        drops.runs[i].data_offset = 0;
    finish(&(struct image_pages){&runs, &drops, &present}, 2, 1, fd, at);
    runs_release(&runs);
    runs_release(&drops);
    runs_release(&present);
    return fd;
}

/* As it comes to another node, in pieces of odd sizes; the caller closes it. */
static int put_together(struct encoded *encoded)
{
    const struct image_header *header = encoded_header(encoded);
    int fd = image_make_memfd(NULL);
    uint8_t bytes[3 * PAGE];
    uint64_t at = PAGE;
    for (size_t room = 1;; room = room * 3 % sizeof bytes + 1) {
        ssize_t got = encoded_read(encoded, bytes, room);
        assert_true(got >= 0 && (size_t)got <= room);
        if (got == 0)
            break;
        assert_int_equal(pwrite(fd, bytes, (size_t)got, (off_t)at), got);
        at += (uint64_t)got;
    }
    assert_int_equal(at, PAGE + header->data_bytes);
    assert_int_equal(pwrite(fd, encoded_tables(encoded), header->tables_bytes, (off_t)header->tables_offset),
                     (ssize_t)header->tables_bytes);
    assert_int_equal(pwrite(fd, header, sizeof *header, 0), (ssize_t)sizeof *header);
    return fd;
}

static void apply(int delta, int image)
{
    struct apply apply = {.image = image, .delta = delta, .copy = -1, .rank = 1, .base_line = 1, .line = 2};
    struct belay_error err = {0};
    if (apply_delta(&apply, &err) < 0)
        fail_msg("%s", err.text);
}

static void expect_pages(int image, const struct memory *memory)
{
    struct image_view view;
    uint8_t page[PAGE];
    struct belay_error err = {0};
    assert_int_equal(image_load(image, &view, NULL), 0);
    if (sums_check(image, &view, NULL, &err) < 0)
        fail_msg("%s", err.text);
    image_unload(&view);
    for (unsigned i = 0; i < PAGES; i++) {
        assert_int_equal(image_read_pages(image, BASE + i * PAGE, page, PAGE, NULL), 0);
        assert_memory_equal(page, memory->pages[i], PAGE);
    }
}

static struct digest root_of(int part, int base)
{
    struct digest root;
    struct belay_error err = {0};
    if (root_of_image(part, base, &root, &err) < 0)
        fail_msg("%s", err.text);
    return root;
}

/* Deltas of both kinds, on two images that are the same. */
static struct encoded_figures check_both(void)
{
    int ours = make_image(&before, 1), theirs = make_image(&before, 1), delta = make_delta();
    struct belay_error err = {0};
    struct encoded *encoded = encode_delta(delta, ours, &err);
    if (!encoded)
        fail_msg("%s", err.text);
    struct encoded_figures figures = *encoded_figures(encoded);
    int lines = put_together(encoded);
    struct digest root = root_of(delta, ours), other = root_of(lines, theirs);
    assert_true(digest_is_equal(&root, &other));
    apply(delta, ours);
    apply(lines, theirs);
    expect_pages(ours, &after);
    expect_pages(theirs, &after);
    root = root_of(ours, -1);
    other = root_of(theirs, -1);
    assert_true(digest_is_equal(&root, &other));
    encoded_destroy(encoded);
    close(ours);
    close(theirs);
    close(delta);
    close(lines);
    return figures;
}

static void same_images_for_random_lines(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        make_before(round);
        after = before;
        for (unsigned i = 0, left = 0; i < PAGES; i++) {
            static enum deed deed;
            if (left-- == 0) { /* stretches of the same, of any length */
                deed = (enum deed)(rand() % DEED_KINDS);
                left = (unsigned)rand() % (round % 3 == 0 ? 2 : 40);
            }
            do_deed(i, deed);
        }
        struct encoded_figures figures = check_both();
        assert_true(figures.bytes < figures.page_bytes + figures.page_bytes / 50);
    }
}

/* Pages of the image, all with one deed; returns what they cost beside header and tables of an empty delta.
 */
static struct encoded_figures cost_of(enum deed deed, unsigned count)
{
    make_before(5);
    memset(before.is_there, true, sizeof before.is_there);
    for (unsigned i = 0; i < PAGES; i++)
        fill(before.pages[i]);
    after = before;
    for (unsigned i = 0; i < PAGES; i++)
        do_deed(i, i >= 10 && i < 10 + count ? deed : DEED_NONE);
    return check_both();
}

static void what_pages_cost(void **state)
{
    (void)state;
    const uint64_t run = sizeof(struct image_run) + sizeof(uint64_t), page = 2 * sizeof(uint64_t);
    uint64_t nothing = cost_of(DEED_NONE, 0).bytes;
    struct encoded_figures same = cost_of(DEED_SAME, 100);
    assert_int_equal(same.bytes, nothing); /* no data, and no word of them */
    assert_int_equal(same.same_pages, 100);
    assert_int_equal(cost_of(DEED_SAME, 1).bytes, nothing + run + page);
    assert_int_equal(cost_of(DEED_BYTE, 1).bytes,
                     nothing + run + page + LINE_BYTES); /* its mask and its sum */
    assert_int_equal(cost_of(DEED_BYTE, 100).bytes, nothing + run + 100 * (page + LINE_BYTES));
    assert_int_equal(cost_of(DEED_ZEROS, 100).bytes, nothing + run + 100 * page);
    assert_int_equal(cost_of(DEED_SPARSE, 100).bytes, nothing + run + 100 * (page + LINE_BYTES));
    assert_int_equal(cost_of(DEED_ALL, 100).bytes, nothing + run + 100 * (PAGE + sizeof(uint64_t)));
}

/* The memory that a page was in before its image had it says nothing of it. */
static void a_page_that_is_not_named_is_fresh(void **state)
{
    (void)state;
    make_before(3);
    memset(before.is_there, false, sizeof before.is_there);
    memset(before.pages, 0, sizeof before.pages);
    before.is_there[0] = true;
    after = before;
    memset(deeds, 0, sizeof deeds);
    do_deed(9, DEED_SPARSE);
    int ours = make_image(&before, 1), theirs = make_image(&before, 1), delta = make_delta();
    uint8_t rubbish[PAGE];
    fill(rubbish);
    assert_int_equal(pwrite(ours, after.pages[9], PAGE, (off_t)image_offset(BASE + 9 * PAGE)), (ssize_t)PAGE);
    assert_int_equal(pwrite(theirs, rubbish, PAGE, (off_t)image_offset(BASE + 9 * PAGE)), (ssize_t)PAGE);
    struct encoded *encoded = encode_delta(delta, ours, NULL);
    int lines = put_together(encoded);
    apply(lines, theirs);
    expect_pages(theirs, &after);
    encoded_destroy(encoded);
    close(ours);
    close(theirs);
    close(delta);
    close(lines);
}

static void wrong_pairs_are_refused(void **state)
{
    (void)state;
    make_before(4);
    after = before;
    memset(deeds, 0, sizeof deeds);
    do_deed(3, DEED_BYTE);
    struct belay_error err = {0};
    int image = make_image(&before, 1), newer = make_image(&before, 2), delta = make_delta();
    assert_null(encode_delta(delta, newer, &err));
    assert_int_equal(err.code, EINVAL);
    assert_null(encode_delta(image, image, &err));
    assert_null(encode_delta(delta, delta, &err));
    struct encoded *encoded = encode_delta(delta, image, NULL);
    int lines = put_together(encoded);
    assert_null(encode_delta(lines, image, &err)); /* once is enough */
    encoded_destroy(encoded);
    close(image);
    close(newer);
    close(delta);
    close(lines);
}

/* Every bit of what is sent: of the header and the tables it is refused; of a packed line, the page's sum
 * tells. */
static void flipped_bits_are_found(void **state)
{
    (void)state;
    make_before(6);
    after = before;
    memset(deeds, 0, sizeof deeds);
    for (unsigned i = 20; i < 80; i++)
        do_deed(i, (enum deed)(i % DEED_GONE));
    int image = make_image(&before, 1), delta = make_delta();
    struct encoded *encoded = encode_delta(delta, image, NULL);
    int lines = put_together(encoded);
    const struct image_header header = *encoded_header(encoded);
    for (unsigned round = 0; round < 600; round++) {
        uint64_t at = round % 3 == 0 ? (uint64_t)rand() % sizeof header
                                     : PAGE + (uint64_t)rand() % (header.data_bytes + header.tables_bytes);
        uint8_t byte, other;
        struct image_view view = {0};
        struct belay_error err = {0};
        assert_int_equal(pread(lines, &byte, 1, (off_t)at), 1);
        other = (uint8_t)(byte ^ 1 << rand() % 8);
        assert_int_equal(pwrite(lines, &other, 1, (off_t)at), 1);
        int theirs = make_image(&before, 1);
        struct apply how = {
            .image = theirs, .delta = lines, .copy = -1, .rank = 1, .base_line = 1, .line = 2};
        bool is_refused = apply_delta(&how, &err) < 0;
        if (!is_refused) {
            assert_in_range(at, PAGE, PAGE + header.data_bytes - 1);
            assert_int_equal(image_load(theirs, &view, NULL), 0);
            assert_int_equal(sums_check(theirs, &view, NULL, &err), -1);
            assert_int_equal(err.code, EBADMSG);
            image_unload(&view);
        }
        assert_int_equal(pwrite(lines, &byte, 1, (off_t)at), 1);
        close(theirs);
    }
    encoded_destroy(encoded);
    close(image);
    close(delta);
    close(lines);
}

/* Tables that somebody else has made, with a sum that fits: nothing outside the file and the image is
 * touched. */
static void hostile_tables(void **state)
{
    (void)state;
    struct fuzz fuzz = fuzz_begin("hostile tables of lines");
    make_before(8);
    after = before;
    memset(deeds, 0, sizeof deeds);
    for (unsigned i = 20; i < 60; i++)
        do_deed(i, (enum deed)(i % DEED_KINDS));
    int image = make_image(&before, 1), delta = make_delta();
    struct encoded *encoded = encode_delta(delta, image, NULL);
    int lines = put_together(encoded);
    const struct image_header right = *encoded_header(encoded);
    uint8_t *tables = malloc(right.tables_bytes);
    unsigned applied = 0, refused = 0;
    for (unsigned round = 0; round < fuzz_rounds(3000); round++) {
        struct image_header header = right;
        size_t count = sizeof header, table_count = right.tables_bytes;
        memcpy(tables, encoded_tables(encoded), right.tables_bytes);
        if (round % 4 == 0)
            fuzz_damage(&fuzz, (uint8_t *)&header, &count, sizeof header);
        else
            fuzz_damage(&fuzz, tables, &table_count, right.tables_bytes);
        if (header.tables_bytes == right.tables_bytes)
            header.sum = sums_of_tables(&header, (const char *)tables);
        assert_int_equal(pwrite(lines, tables, right.tables_bytes, (off_t)right.tables_offset),
                         (ssize_t)right.tables_bytes);
        assert_int_equal(pwrite(lines, &header, sizeof header, 0), (ssize_t)sizeof header);
        int theirs = make_image(&before, 1);
        struct apply how = {
            .image = theirs, .delta = lines, .copy = -1, .rank = 1, .base_line = 1, .line = 2};
        bool is_applied = apply_delta(&how, NULL) == 0;
        applied += is_applied;
        refused += !is_applied;
        close(theirs);
    }
    assert_true(applied > 0 && refused > 0);
    free(tables);
    encoded_destroy(encoded);
    close(image);
    close(delta);
    close(lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_images_for_random_lines),
        cmocka_unit_test(what_pages_cost),
        cmocka_unit_test(a_page_that_is_not_named_is_fresh),
        cmocka_unit_test(wrong_pairs_are_refused),
        cmocka_unit_test(flipped_bits_are_found),
        cmocka_unit_test(hostile_tables),
    };
    return cmocka_run_group_tests_name("encode", tests, NULL, NULL);
}
