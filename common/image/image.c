#include "common/image/image.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/image/layout.h"
#include "common/image/sums.h"
#include "common/util/array.h"
#include "common/wire/descriptor.h"

#define TABLES_MAX (IMAGE_DATA_BASE - IMAGE_PAGE_BYTES)

struct image_writer {
    struct image_region *regions;
    size_t region_count, region_room;
    char *strings;
    size_t strings_bytes, strings_room;
    uint32_t program;
};

/* Where the tables go within their block. */
struct plan {
    uint64_t region_offset, run_offset, drop_offset, present_offset, sum_count, sum_offset, strings_offset,
        bytes;
};

static int load_header(int fd, struct image_header *header, uint64_t file_bytes, struct belay_error *err);
static int check_tables(struct image_view *view, uint64_t file_bytes, struct belay_error *err);
static bool is_table(uint64_t offset, uint64_t count, uint64_t size, uint64_t limit);
static int check_regions(const struct image_view *view, struct belay_error *err);
static int check_runs(const struct image_view *view, const struct image_run *runs, uint64_t count,
                      bool is_whole, struct belay_error *err);
static int check_data(const struct image_view *view, uint64_t file_bytes, struct belay_error *err);
static int check_order(const struct image_run *runs, uint64_t count, struct belay_error *err);
static int add_string(struct image_writer *writer, const char *text, uint32_t *offset);
static struct plan plan_tables(const struct image_header *counts);
static struct plan plan_written(const struct image_writer *writer, const struct image_pages *pages);
static int put_sums(uint64_t *to, const struct run_set *runs, int fd, uint64_t data_bytes,
                    struct belay_error *err);
static size_t count_of(const struct run_set *set);
static void put_runs(char *to, const struct run_set *set);
static int read_all(int fd, void *to, size_t bytes, uint64_t offset);
static int write_all(int fd, const void *from, size_t bytes, uint64_t offset);
static int write_tables(int fd, const struct image_header *header, const char *tables,
                        struct belay_error *err);

uint64_t image_end(void)
{
    return sums_offset(LAYOUT_END);
}

int image_make_memfd(struct belay_error *err)
{
    int fd = descriptor_make_memory(IMAGE_MEMFD_NAME, image_end(), err);
    return fd < 0 ? belay_error_prefix(err, "cannot make an image") : fd;
}

int image_check_memfd(int fd, struct belay_error *err)
{
    return descriptor_check_memory(fd, image_end(), "the image", err);
}

int image_write_pages(int fd, uint64_t address, const void *from, uint64_t bytes, struct belay_error *err)
{
    if (write_all(fd, from, bytes, image_offset(address)) < 0)
        return belay_error_errno(err, "no memory for %.1f MiB of an image", bytes / (double)(1 << 20));
    return sums_write(fd, address, from, bytes, err);
}

int image_move_pages(int fd, uint64_t address, const void *from, const uint64_t *sums, uint64_t bytes,
                     struct belay_error *err)
{
    if (write_all(fd, from, bytes, image_offset(address)) < 0 ||
        write_all(fd, sums, SUMS_OF_BYTES(bytes), sums_offset(address)) < 0)
        return belay_error_errno(err, "no memory for %.1f MiB of an image", bytes / (double)(1 << 20));
    return 0;
}

int image_load(int fd, struct image_view *view, struct belay_error *err)
{
    struct stat st;
    struct image_header header;
    struct image_view read = {0};
    if (fstat(fd, &st) < 0)
        return belay_error_errno(err, "cannot read an image");
    uint64_t file_bytes = (uint64_t)st.st_size;
    if (load_header(fd, &header, file_bytes, err) < 0)
        return -1;
    read.header = malloc(sizeof header);
    read.tables = malloc(header.tables_bytes);
    if (!read.header || !read.tables) {
        belay_error_set(err, ENOMEM, "no memory for the tables of an image");
        goto fail;
    }
    *read.header = header;
    if (read_all(fd, read.tables, header.tables_bytes, header.tables_offset) < 0) {
        belay_error_errno(err, "cannot read the tables of an image");
        goto fail;
    }
    if (check_tables(&read, file_bytes, err) < 0)
        goto fail;
    *view = read;
    return 0;
fail:
    image_unload(&read);
    return -1;
}

void image_unload(struct image_view *view)
{
    int code = errno;
    free(view->header);
    free(view->tables);
    *view = (struct image_view){0};
    errno = code;
}

uint64_t image_first_data(const struct image_view *view)
{
    return view->header->run_count > 0 ? view->runs[0].data_offset : 0;
}

const char *image_string(const struct image_view *view, uint32_t offset)
{
    return offset < view->header->strings_bytes ? view->strings + offset : "";
}

struct image_writer *image_writer_create(void)
{
    struct image_writer *writer = calloc(1, sizeof *writer);
    uint32_t offset;
    if (!writer)
        return NULL;
    if (add_string(writer, "", &offset) < 0) {
        image_writer_destroy(writer);
        return NULL;
    }
    return writer;
}

void image_writer_destroy(struct image_writer *writer)
{
    int code = errno;
    if (writer) {
        free(writer->regions);
        free(writer->strings);
        free(writer);
    }
    errno = code;
}

int image_writer_add_region(struct image_writer *writer, const struct image_region *region, const char *path)
{
    const struct image_region *last =
        writer->region_count ? &writer->regions[writer->region_count - 1] : NULL;
    if (region->start >= region->end || (last && region->start < last->end)) {
        errno = EINVAL;
        return -1;
    }
    if (array_reserve(&writer->regions, writer->region_count + 1, &writer->region_room) < 0)
        return -1;
    struct image_region added = *region;
    added.path = 0;
    if (path && path[0] && add_string(writer, path, &added.path) < 0)
        return -1;
    writer->regions[writer->region_count++] = added;
    return 0;
}

int image_writer_set_program(struct image_writer *writer, const char *path)
{
    return add_string(writer, path, &writer->program);
}

uint64_t image_writer_tables_bytes(const struct image_writer *writer, const struct image_pages *pages)
{
    return plan_written(writer, pages).bytes;
}

int image_writer_finish(struct image_writer *writer, const struct image_pages *pages,
                        const struct image_header *header, int fd, uint64_t tables_offset,
                        struct belay_error *err)
{
    struct plan plan = plan_written(writer, pages);
    struct image_header own = *header;
    own.tables_offset = tables_offset;
    own.tables_bytes = plan.bytes;
    own.region_count = writer->region_count;
    own.region_offset = plan.region_offset;
    own.run_count = pages->runs->count;
    own.run_offset = plan.run_offset;
    own.drop_count = count_of(pages->drops);
    own.drop_offset = plan.drop_offset;
    own.present_count = count_of(pages->present);
    own.present_offset = plan.present_offset;
    own.sum_count = plan.sum_count;
    own.sum_offset = plan.sum_offset;
    own.strings_bytes = writer->strings_bytes;
    own.strings_offset = plan.strings_offset;
    own.data_bytes = runs_bytes(pages->runs);
    own.program = writer->program;
    char *tables = calloc(1, plan.bytes);
    if (!tables)
        return belay_error_errno(err, "cannot build the tables of an image");
    memcpy(tables + plan.region_offset, writer->regions, writer->region_count * sizeof *writer->regions);
    put_runs(tables + plan.run_offset, pages->runs);
    put_runs(tables + plan.drop_offset, pages->drops);
    put_runs(tables + plan.present_offset, pages->present);
    memcpy(tables + plan.strings_offset, writer->strings, writer->strings_bytes);
    int rc = 0;
    if (plan.sum_count > 0)
        rc = put_sums((uint64_t *)(void *)(tables + plan.sum_offset), pages->runs, fd, tables_offset, err);
    if (rc == 0)
        rc = write_tables(fd, &own, tables, err);
    int code = errno;
    free(tables);
    errno = code;
    return rc;
}

uint64_t image_adopt_tables(const struct image_view *delta, int fd, struct belay_error *err)
{
    const struct image_header *from = delta->header;
    struct image_header own = *from;
    own.base_line = 0;
    own.tables_offset = IMAGE_PAGE_BYTES;
    own.run_count = from->present_count;
    own.drop_count = own.present_count = own.sum_count = 0;
    struct plan plan = plan_tables(&own);
    own.tables_bytes = plan.bytes;
    own.region_offset = plan.region_offset;
    own.run_offset = plan.run_offset;
    own.drop_offset = plan.drop_offset;
    own.present_offset = plan.present_offset;
    own.sum_offset = plan.sum_offset;
    own.strings_offset = plan.strings_offset;
    own.data_bytes = 0;
    for (uint64_t i = 0; i < from->present_count; i++)
        own.data_bytes += delta->present[i].bytes;
    char *tables = calloc(1, plan.bytes);
    if (!tables) {
        belay_error_errno(err, "cannot build the tables of an image");
        return 0;
    }
    memcpy(tables + plan.region_offset, delta->regions, from->region_count * sizeof *delta->regions);
    if (from->present_count)
        memcpy(tables + plan.run_offset, delta->present, from->present_count * sizeof *delta->present);
    memcpy(tables + plan.strings_offset, delta->strings, from->strings_bytes);
    int rc = write_tables(fd, &own, tables, err);
    free(tables);
    return rc < 0 ? 0 : IMAGE_PAGE_BYTES + own.tables_bytes + own.data_bytes;
}

static int load_header(int fd, struct image_header *header, uint64_t file_bytes, struct belay_error *err)
{
    if (read_all(fd, header, sizeof *header, 0) < 0 || header->magic != IMAGE_MAGIC)
        return belay_error_set(err, EINVAL, "not a checkpoint image");
    if (header->version != IMAGE_VERSION || header->header_bytes != sizeof *header)
        return belay_error_set(err, EINVAL, "image of format %u; this Belay reads format %u", header->version,
                               IMAGE_VERSION);
    uint64_t bytes = header->tables_bytes;
    bool is_sound =
        header->tables_offset >= sizeof *header && header->tables_offset <= file_bytes &&
        bytes <= file_bytes - header->tables_offset && bytes <= TABLES_MAX && header->rank < header->ranks &&
        (header->group == IMAGE_OF_SHARED ? header->ranks % 2 == 0 && header->rank >= header->ranks / 2
                                          : header->group <= header->rank) &&
        header->strings_bytes > 0 && header->strings_bytes <= UINT32_MAX &&
        header->program < header->strings_bytes && header->data_bytes <= file_bytes &&
        header->total_bytes == IMAGE_PAGE_BYTES + bytes + header->data_bytes &&
        is_table(header->region_offset, header->region_count, sizeof(struct image_region), bytes) &&
        is_table(header->run_offset, header->run_count, sizeof(struct image_run), bytes) &&
        is_table(header->drop_offset, header->drop_count, sizeof(struct image_run), bytes) &&
        is_table(header->present_offset, header->present_count, sizeof(struct image_run), bytes) &&
        is_table(header->sum_offset, header->sum_count, sizeof(uint64_t), bytes) &&
        is_table(header->strings_offset, header->strings_bytes, 1, bytes);
    return is_sound ? 0 : belay_error_set(err, EINVAL, "damaged image: its header is out of bounds");
}

/* Also lets the view's pointers point into the tables. */
static int check_tables(struct image_view *view, uint64_t file_bytes, struct belay_error *err)
{
    const struct image_header *header = view->header;
    const char *tables = view->tables;
    view->regions = (const struct image_region *)(const void *)(tables + header->region_offset);
    view->runs = (const struct image_run *)(const void *)(tables + header->run_offset);
    view->drops = (const struct image_run *)(const void *)(tables + header->drop_offset);
    view->present = (const struct image_run *)(const void *)(tables + header->present_offset);
    view->sums = (const uint64_t *)(const void *)(tables + header->sum_offset);
    view->strings = tables + header->strings_offset;
    if (view->strings[0] != '\0' || view->strings[header->strings_bytes - 1] != '\0')
        return belay_error_set(err, EINVAL, "damaged image: its strings are not terminated");
    if (check_regions(view, err) < 0 ||
        check_runs(view, view->runs, header->run_count, header->base_line == 0, err) < 0 ||
        check_data(view, file_bytes, err) < 0 || check_order(view->drops, header->drop_count, err) < 0)
        return -1;
    return check_runs(view, view->present, header->present_count, true, err); /* an image is made of it */
}

static bool is_table(uint64_t offset, uint64_t count, uint64_t size, uint64_t limit)
{
    bool is_aligned = size == 1 || offset % sizeof(uint64_t) == 0;
    return is_aligned && offset <= limit && count <= (limit - offset) / size;
}

/* Whether the half that is not saved lies there in a restarted process, that process knows. */
static bool is_mappable(uint64_t start, uint64_t end)
{
    return start < end && end <= LAYOUT_END;
}

static int check_regions(const struct image_view *view, struct belay_error *err)
{
    uint64_t end = 0;
    for (uint64_t i = 0; i < view->header->region_count; i++) {
        const struct image_region *region = &view->regions[i];
        bool is_sound = region->start >= end && is_mappable(region->start, region->end) &&
                        (region->start | region->end) % IMAGE_PAGE_BYTES == 0 &&
                        region->kind > IMAGE_REGION_NONE && region->kind <= IMAGE_REGION_BEHIND &&
                        region->path < view->header->strings_bytes;
        if (!is_sound)
            return belay_error_set(err, EINVAL, "damaged image: region %llu", (unsigned long long)i);
        end = region->end;
    }
    return 0;
}

/* Runs are in order and each in a region; those of a whole image have their places by their addresses. */
static int check_runs(const struct image_view *view, const struct image_run *runs, uint64_t count,
                      bool is_whole, struct belay_error *err)
{
    const struct image_region *region = view->regions, *last = view->regions + view->header->region_count;
    if (check_order(runs, count, err) < 0)
        return -1;
    for (uint64_t i = 0; i < count; i++) {
        const struct image_run *run = &runs[i];
        while (region < last && region->end <= run->address)
            region++;
        bool is_sound = region < last && run->address >= region->start &&
                        run->bytes <= region->end - run->address &&
                        run->data_offset % IMAGE_PAGE_BYTES == 0 && run->data_offset >= IMAGE_PAGE_BYTES &&
                        (!is_whole || run->data_offset == image_offset(run->address));
        if (!is_sound)
            return belay_error_set(err, EINVAL, "damaged image: run %llu", (unsigned long long)i);
    }
    return 0;
}

/* ... and the file holds them, and those of a delta each have a sum. */
static int check_data(const struct image_view *view, uint64_t file_bytes, struct belay_error *err)
{
    const struct image_header *header = view->header;
    uint64_t pages = 0;
    for (uint64_t i = 0; i < header->run_count; i++) {
        if (view->runs[i].data_offset > file_bytes ||
            view->runs[i].bytes > file_bytes - view->runs[i].data_offset)
            return belay_error_set(err, EINVAL, "damaged image: run %llu", (unsigned long long)i);
        pages += view->runs[i].bytes / IMAGE_PAGE_BYTES;
    }
    if (header->sum_count != (header->base_line > 0 ? pages : 0))
        return belay_error_set(err, EINVAL, "damaged image: it has %llu sums of %llu pages",
                               (unsigned long long)header->sum_count, (unsigned long long)pages);
    return 0;
}

static int check_order(const struct image_run *runs, uint64_t count, struct belay_error *err)
{
    uint64_t end = 0;
    for (uint64_t i = 0; i < count; i++) {
        const struct image_run *run = &runs[i];
        bool is_sound = run->address >= end && run->bytes <= LAYOUT_END &&
                        is_mappable(run->address, run->address + run->bytes) &&
                        (run->address | run->bytes) % IMAGE_PAGE_BYTES == 0;
        if (!is_sound)
            return belay_error_set(err, EINVAL, "damaged image: run %llu", (unsigned long long)i);
        end = run->address + run->bytes;
    }
    return 0;
}

/* Neighbouring regions are often of one file: its path is kept once. */
static int add_string(struct image_writer *writer, const char *text, uint32_t *offset)
{
    size_t bytes = strlen(text) + 1;
    if (writer->strings_bytes >= bytes &&
        !memcmp(writer->strings + writer->strings_bytes - bytes, text, bytes) &&
        (writer->strings_bytes == bytes || writer->strings[writer->strings_bytes - bytes - 1] == '\0')) {
        *offset = (uint32_t)(writer->strings_bytes - bytes);
        return 0;
    }
    if (writer->strings_bytes + bytes > UINT32_MAX) {
        errno = ENOMEM;
        return -1;
    }
    if (array_reserve(&writer->strings, writer->strings_bytes + bytes, &writer->strings_room) < 0)
        return -1;
    memcpy(writer->strings + writer->strings_bytes, text, bytes);
    *offset = (uint32_t)writer->strings_bytes;
    writer->strings_bytes += bytes;
    return 0;
}

static struct plan plan_tables(const struct image_header *counts)
{
    struct plan plan = {.sum_count = counts->sum_count};
    plan.run_offset = counts->region_count * sizeof(struct image_region);
    plan.drop_offset = plan.run_offset + counts->run_count * sizeof(struct image_run);
    plan.present_offset = plan.drop_offset + counts->drop_count * sizeof(struct image_run);
    plan.sum_offset = plan.present_offset + counts->present_count * sizeof(struct image_run);
    plan.strings_offset = plan.sum_offset + counts->sum_count * sizeof(uint64_t);
    plan.bytes = plan.strings_offset + counts->strings_bytes;
    return plan;
}

static struct plan plan_written(const struct image_writer *writer, const struct image_pages *pages)
{
    const struct image_header counts = {
        .region_count = writer->region_count,
        .run_count = pages->runs->count,
        .drop_count = count_of(pages->drops),
        .present_count = count_of(pages->present),
        .sum_count = pages->present ? runs_bytes(pages->runs) / IMAGE_PAGE_BYTES : 0,
        .strings_bytes = writer->strings_bytes,
    };
    return plan_tables(&counts);
}

/* The page data are the first data_bytes of the file. */
static int put_sums(uint64_t *to, const struct run_set *runs, int fd, uint64_t data_bytes,
                    struct belay_error *err)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && (uint64_t)st.st_size < data_bytes)
        return belay_error_set(err, EINVAL, "a delta ends before its pages do");
    char *data = mmap(NULL, data_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        return belay_error_errno(err, "cannot read the pages of a delta");
    for (size_t i = 0; i < runs->count; i++) {
        const struct image_run *run = &runs->runs[i];
        sums_make(to, run->address, data + run->data_offset, run->bytes);
        to += run->bytes / IMAGE_PAGE_BYTES;
    }
    munmap(data, data_bytes);
    return 0;
}

static size_t count_of(const struct run_set *set)
{
    return set ? set->count : 0;
}

static void put_runs(char *to, const struct run_set *set)
{
    if (count_of(set))
        memcpy(to, set->runs, set->count * sizeof *set->runs);
}

static int read_all(int fd, void *to, size_t bytes, uint64_t offset)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = EINVAL;
        if (got <= 0)
            return -1;
        done += (size_t)got;
    }
    return 0;
}

static int write_all(int fd, const void *from, size_t bytes, uint64_t offset)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t wrote = pwrite(fd, (const char *)from + done, bytes - done, (off_t)(offset + done));
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return -1;
        done += (size_t)wrote;
    }
    return 0;
}

/* The header goes last, so that what was cut short is not an image. */
static int write_tables(int fd, const struct image_header *header, const char *tables,
                        struct belay_error *err)
{
    struct image_header own = *header;
    own.magic = IMAGE_MAGIC;
    own.version = IMAGE_VERSION;
    own.header_bytes = sizeof own;
    own.total_bytes = IMAGE_PAGE_BYTES + own.tables_bytes + own.data_bytes;
    if (own.tables_bytes > TABLES_MAX)
        return belay_error_set(err, EFBIG, "the tables of an image are too large");
    own.sum = sums_of_tables(&own, tables);
    if (write_all(fd, tables, own.tables_bytes, own.tables_offset) < 0 ||
        write_all(fd, &own, sizeof own, 0) < 0)
        return belay_error_errno(err, "cannot write the tables of an image");
    return 0;
}
