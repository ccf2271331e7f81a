#include "node-agent/test/store_parts.h"

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

static char base[64], rundir[80];
struct keeper *parts_keeper;

int parts_setup(void **state)
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
    parts_keeper = keeper_open(rundir, program, NULL);
    return parts_keeper ? 0 : -1;
}

int parts_teardown(void **state)
{
    (void)state;
    keeper_close(parts_keeper);
    return rmdir(base);
}

static void put_page(int fd, const struct image_run *run, uint64_t at, bool is_delta, const char *page)
{
    if (is_delta)
        assert_int_equal(pwrite(fd, page, PAGE, (off_t)(run->data_offset + at)), (ssize_t)PAGE);
    else
        assert_int_equal(image_write_pages(fd, run->address + at, page, PAGE, NULL), 0);
}

/* An image or delta of one region whose runs are these; no page data but for `fill` in each page. */
static int make_part(uint64_t line, uint64_t base_line, uint32_t rank, const struct image_pages *pages,
                     char fill)
{
    struct image_header header = {.line = line, .base_line = base_line, .rank = rank, .ranks = 2};
    if (rank >= 2) { /* what a group shares */
        header.ranks = 4;
        header.group = IMAGE_OF_SHARED;
    }
    struct image_region region = {
        .start = UPPER_BASE, .end = UPPER_BASE + 8 * PAGE, .kind = IMAGE_REGION_ANON};
    struct image_writer *writer = image_writer_create();
    char page[PAGE];
    memset(page, fill, sizeof page);
    int fd = base_line ? memfd_create("delta", MFD_CLOEXEC) : image_make_memfd(NULL);
    for (size_t i = 0; i < pages->runs->count; i++)
        for (uint64_t at = 0; at < pages->runs->runs[i].bytes; at += PAGE)
            put_page(fd, &pages->runs->runs[i], at, base_line > 0, page);
    uint64_t tables = base_line ? PAGE + runs_bytes(pages->runs) : PAGE;
    assert_int_equal(image_writer_add_region(writer, &region, NULL), 0);
    assert_int_equal(image_writer_finish(writer, pages, &header, fd, tables, NULL), 0);
    image_writer_destroy(writer);
    return fd;
}

/* Pages 0 to 3 of an image. */
static struct image_run whole = {UPPER_BASE, 4 * PAGE, 0};

int parts_image(uint64_t line, uint32_t rank)
{
    struct run_set runs = {.runs = &whole, .count = 1};
    struct image_pages pages = {.runs = &runs};
    whole.data_offset = image_offset(whole.address);
    return make_part(line, 0, rank, &pages, (char)line);
}

/* A delta that changes page 1 and drops page 2. */
int parts_delta(uint64_t line, uint64_t base_line, uint32_t rank)
{
    struct image_run changed = {UPPER_BASE + PAGE, PAGE, PAGE}, gone = {UPPER_BASE + 2 * PAGE, PAGE, 0};
    struct image_run left[2] = {{UPPER_BASE, 2 * PAGE, image_offset(UPPER_BASE)},
                                {UPPER_BASE + 3 * PAGE, PAGE, image_offset(UPPER_BASE + 3 * PAGE)}};
    struct run_set runs = {.runs = &changed, .count = 1}, drops = {.runs = &gone, .count = 1},
                   present = {.runs = left, .count = 2};
    struct image_pages pages = {&runs, &drops, &present};
    return make_part(line, base_line, rank, &pages, (char)line);
}

void parts_stage(struct store *store, uint64_t line, uint32_t rank)
{
    struct store_item item = {
        .rank = rank, .ranks = 2, .fd = parts_image(line, rank), .bytes = BYTES, .image_bytes = BYTES};
    assert_int_equal(store_stage(store, line, &item, NULL), 0);
}

void parts_stage_delta(struct store *store, uint64_t line, uint64_t base_line, uint32_t rank)
{
    struct store_item item = {.rank = rank,
                              .ranks = 2,
                              .fd = parts_delta(line, base_line, rank),
                              .bytes = PAGE,
                              .base_line = base_line,
                              .image_bytes = BYTES};
    assert_int_equal(store_stage(store, line, &item, NULL), 0);
}

void parts_commit(struct store *store, uint64_t line)
{
    struct commit_entry entry = {.line = line};
    parts_stage(store, line, 0);
    parts_stage(store, line, 1);
    assert_int_equal(store_commit(store, &entry, NULL), 0);
    assert_int_equal(entry.image_bytes, 2 * BYTES);
}

char parts_byte(int fd, uint64_t page)
{
    char byte = 'x';
    assert_int_equal(pread(fd, &byte, 1, (off_t)image_offset(UPPER_BASE + page * PAGE)), 1);
    return byte;
}

/* The image of `line` after parts_delta(line) on the image of base_line. */
void parts_expect_applied(int fd, uint64_t base_line, uint64_t line)
{
    struct image_view view;
    assert_int_equal(image_load(fd, &view, NULL), 0);
    assert_int_equal(view.header->line, line);
    assert_int_equal(view.header->run_count, 2);
    image_unload(&view);
    assert_int_equal(parts_byte(fd, 0), (char)base_line);
    assert_int_equal(parts_byte(fd, 1), (char)line);
    assert_int_equal(parts_byte(fd, 2), 0);
    assert_int_equal(parts_byte(fd, 3), (char)base_line);
}

uint64_t parts_line(int fd)
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

unsigned parts_held(void)
{
    unsigned count = 0;
    assert_int_equal(keeper_list(parts_keeper, count_one, &count, NULL), 0);
    return count;
}

struct store_pin parts_pin(struct store *store, uint32_t rank, enum pin_reason reason)
{
    struct store_pin pin;
    assert_int_equal(store_image_pin(store, rank, reason, &pin, NULL), 0);
    return pin;
}

/* What the parts_keeper holds. */
struct held {
    char names[16][KEEPER_NAME_BYTES];
    int fds[16];
    unsigned count;
};

static void collect(void *context, const char *name, int fd)
{
    struct held *held = context;
    assert_true(held->count < 16);
    strcpy(held->names[held->count], name);
    held->fds[held->count++] = fd;
}

/* As record_adopt() does, for one job. */
struct store *parts_adopt_protected(uint64_t protected_line, uint64_t lines_expected)
{
    struct held held = {.count = 0};
    struct store *store = NULL;
    uint64_t lines = 0;
    unsigned long long line;
    unsigned rank;
    assert_int_equal(keeper_list(parts_keeper, collect, &held, NULL), 0);
    for (unsigned i = 0; i < held.count; i++)
        if (!strcmp(held.names[i], "job/commits"))
            store = store_adopt(parts_keeper, "job", held.fds[i], protected_line, 0, NULL);
    assert_non_null(store);
    for (unsigned i = 0; i < held.count; i++) {
        if (sscanf(held.names[i], "job/spare/%llu/%u", &line, &rank) == 2) {
            assert_int_equal(store_adopt_spare(store, line, rank, held.fds[i], NULL), 0);
            lines |= 1ull << line;
            continue;
        }
        bool is_delta = sscanf(held.names[i], "job/delta/%llu/%u", &line, &rank) == 2;
        if (!is_delta && sscanf(held.names[i], "job/image/%llu/%u", &line, &rank) != 2)
            continue;
        assert_int_equal(store_adopt_item(store, is_delta, line, rank, held.fds[i], NULL), 0);
        lines |= 1ull << line;
    }
    assert_int_equal(lines, lines_expected);
    return store;
}

struct store *parts_adopt(uint64_t lines_expected)
{
    return parts_adopt_protected(0, lines_expected);
}

struct holding parts_holding(const struct store *store, uint32_t rank)
{
    struct holding held[2];
    assert_int_equal(store_held_ranks(store), 2);
    store_list_held(store, held);
    return held[rank];
}
