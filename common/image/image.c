#include "common/image/image.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/image/layout.h"
#include "common/image/lines.h"
#include "common/image/sums.h"
#include "common/image/tables.h"
#include "common/util/array.h"
#include "common/wire/descriptor.h"

struct image_writer {
    struct image_region *regions;
    size_t region_count, region_room;
    char *strings;
    size_t strings_bytes, strings_room;
    uint32_t program;
    const char *data; /* borrowed: the mapped pages of a delta; NULL: they are not mapped */
};

static int load_header(int fd, struct image_header *header, uint64_t file_bytes, struct belay_error *err);
static int check_tables(struct image_view *view, uint64_t file_bytes, struct belay_error *err);
static bool is_table(uint64_t offset, uint64_t count, uint64_t size, uint64_t limit);
static int check_regions(const struct image_view *view, struct belay_error *err);
static int check_encodings(const struct image_view *view, struct belay_error *err);
static int check_runs(const struct image_view *view, const struct image_run *runs, uint64_t count,
                      bool is_whole, struct belay_error *err);
static int check_data(const struct image_view *view, uint64_t file_bytes, struct belay_error *err);
static int check_order(const struct image_run *runs, uint64_t count, struct belay_error *err);
static int add_string(struct image_writer *writer, const char *text, uint32_t *offset);
static struct image_header plan_tables(const struct image_writer *writer, const struct image_pages *pages);
static void put_sums(uint64_t *to, const struct run_set *runs, const char *data);
static int map_and_put_sums(uint64_t *to, const struct run_set *runs, int fd, uint64_t data_bytes,
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

void *image_block(uint64_t bytes)
{
    return aligned_alloc(IMAGE_PAGE_BYTES, bytes);
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

int image_read_pages(int fd, uint64_t address, void *to, uint64_t bytes, struct belay_error *err)
{
    if (read_all(fd, to, bytes, image_offset(address)) < 0)
        return belay_error_errno(err, "cannot read the pages of an image");
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

bool image_has_masks(const struct image_view *view, uint64_t run)
{
    return view->header->encoding_count > 0 && view->encodings[run] != IMAGE_PAGES;
}

bool image_next_piece(const struct image_view *view, struct image_piece *piece)
{
    const struct image_header *header = view->header;
    if (piece->index == header->run_count)
        return false;
    uint64_t pages = piece->run ? piece->run->bytes / IMAGE_PAGE_BYTES : 0;
    piece->sums = piece->run ? piece->sums + pages : view->sums;
    piece->next_mask += piece->masks ? pages : 0;
    piece->run = &view->runs[piece->index];
    piece->encoding =
        header->encoding_count > 0 ? (enum image_encoding)view->encodings[piece->index] : IMAGE_PAGES;
    piece->masks = image_has_masks(view, piece->index) ? view->masks + piece->next_mask : NULL;
    piece->data_bytes = piece->masks ? 0 : piece->run->bytes;
    for (uint64_t i = 0; piece->masks && i < piece->run->bytes / IMAGE_PAGE_BYTES; i++)
        piece->data_bytes += lines_bytes(piece->masks[i]);
    piece->index++;
    return true;
}

uint64_t image_tables_bytes(const struct image_view *view)
{
    const struct image_header *header = view->header;
    bool is_delta = header->base_line > 0;
    const struct image_run *runs = is_delta ? view->present : view->runs;
    uint64_t count = is_delta ? header->present_count : header->run_count;
    uint64_t bytes = IMAGE_PAGE_BYTES + header->tables_bytes;
    for (uint64_t i = 0; i < count; i++)
        bytes += SUMS_OF_BYTES(runs[i].bytes);
    return bytes;
}

uint64_t image_first_data(const struct image_view *view)
{
    struct image_piece piece = {0};
    while (image_next_piece(view, &piece))
        if (piece.data_bytes > 0)
            return piece.run->data_offset;
    return 0;
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

void image_writer_set_data(struct image_writer *writer, const char *data)
{
    writer->data = data;
}

uint64_t image_writer_tables_bytes(const struct image_writer *writer, const struct image_pages *pages)
{
    return plan_tables(writer, pages).tables_bytes;
}

int image_writer_finish(struct image_writer *writer, const struct image_pages *pages,
                        const struct image_header *header, int fd, uint64_t tables_offset,
                        struct belay_error *err)
{
    struct image_header own = plan_tables(writer, pages);
    own.line = header->line;
    own.base_line = header->base_line;
    own.rank = header->rank;
    own.ranks = header->ranks;
    own.resume_context = header->resume_context;
    own.group = header->group;
    memcpy(own.identity, header->identity, sizeof own.identity);
    own.layout_version = header->layout_version;
    own.tables_offset = tables_offset;
    own.data_bytes = runs_bytes(pages->runs);
    own.program = writer->program;
    char *tables = calloc(1, own.tables_bytes);
    if (!tables)
        return belay_error_errno(err, "cannot build the tables of an image");
    memcpy(tables + own.region_offset, writer->regions, writer->region_count * sizeof *writer->regions);
    put_runs(tables + own.run_offset, pages->runs);
    put_runs(tables + own.drop_offset, pages->drops);
    put_runs(tables + own.present_offset, pages->present);
    memcpy(tables + own.strings_offset, writer->strings, writer->strings_bytes);
    uint64_t *sums = (uint64_t *)(void *)(tables + own.sum_offset);
    int rc = 0;
    if (own.sum_count > 0 && writer->data)
        put_sums(sums, pages->runs, writer->data);
    else if (own.sum_count > 0)
        rc = map_and_put_sums(sums, pages->runs, fd, tables_offset, err);
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
    own.drop_count = own.present_count = own.sum_count = own.encoding_count = own.mask_count = 0;
    tables_place(&own);
    own.data_bytes = 0;
    for (uint64_t i = 0; i < from->present_count; i++)
        own.data_bytes += delta->present[i].bytes;
    char *tables = calloc(1, own.tables_bytes);
    if (!tables) {
        belay_error_errno(err, "cannot build the tables of an image");
        return 0;
    }
    memcpy(tables + own.region_offset, delta->regions, from->region_count * sizeof *delta->regions);
    if (from->present_count)
        memcpy(tables + own.run_offset, delta->present, from->present_count * sizeof *delta->present);
    memcpy(tables + own.strings_offset, delta->strings, from->strings_bytes);
    int rc = write_tables(fd, &own, tables, err);
    free(tables);
    return rc < 0 ? 0 : IMAGE_PAGE_BYTES + own.tables_bytes + own.data_bytes;
}

/* Numbers of parts that are of no rank follow those of ranks. */
static bool is_group_sound(const struct image_header *header)
{
    if (header->group == IMAGE_OF_SHARED)
        return header->ranks % 2 == 0 && header->rank >= header->ranks / 2;
    if (header->group == IMAGE_OF_PARITY)
        return header->ranks % 3 == 0 && header->rank >= header->ranks / 3 * 2;
    return header->group <= header->rank;
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
        bytes <= file_bytes - header->tables_offset && bytes <= IMAGE_TABLES_MAX &&
        header->rank < header->ranks && is_group_sound(header) && header->strings_bytes > 0 &&
        header->strings_bytes <= UINT32_MAX && header->program < header->strings_bytes &&
        header->data_bytes <= file_bytes &&
        header->total_bytes == IMAGE_PAGE_BYTES + bytes + header->data_bytes &&
        is_table(header->region_offset, header->region_count, sizeof(struct image_region), bytes) &&
        is_table(header->run_offset, header->run_count, sizeof(struct image_run), bytes) &&
        is_table(header->drop_offset, header->drop_count, sizeof(struct image_run), bytes) &&
        is_table(header->present_offset, header->present_count, sizeof(struct image_run), bytes) &&
        is_table(header->sum_offset, header->sum_count, sizeof(uint64_t), bytes) &&
        is_table(header->encoding_offset, header->encoding_count, sizeof(uint64_t), bytes) &&
        is_table(header->mask_offset, header->mask_count, sizeof(uint64_t), bytes) &&
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
    view->encodings = (const uint64_t *)(const void *)(tables + header->encoding_offset);
    view->masks = (const uint64_t *)(const void *)(tables + header->mask_offset);
    view->strings = tables + header->strings_offset;
    if (view->strings[0] != '\0' || view->strings[header->strings_bytes - 1] != '\0')
        return belay_error_set(err, EINVAL, "damaged image: its strings are not terminated");
    if (check_regions(view, err) < 0 || check_encodings(view, err) < 0 ||
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

/* Each run of an encoded delta has one. */
static int check_encodings(const struct image_view *view, struct belay_error *err)
{
    const struct image_header *header = view->header;
    bool is_sound = header->encoding_count == 0
                        ? header->mask_count == 0
                        : header->base_line > 0 && header->encoding_count == header->run_count;
    for (uint64_t i = 0; is_sound && i < header->encoding_count; i++)
        is_sound = view->encodings[i] >= IMAGE_PAGES && view->encodings[i] <= IMAGE_FRESH;
    return is_sound ? 0 : belay_error_set(err, EINVAL, "damaged image: its encodings are not of its runs");
}

/* Runs are in order and each in a region; those of a whole image have their places by their addresses. */
static int check_runs(const struct image_view *view, const struct image_run *runs, uint64_t count,
                      bool is_whole, struct belay_error *err)
{
    const struct image_region *region = view->regions, *last = view->regions + view->header->region_count;
    uint64_t grain = view->header->encoding_count > 0 && runs == view->runs ? LINE_BYTES : IMAGE_PAGE_BYTES;
    if (check_order(runs, count, err) < 0)
        return -1;
    for (uint64_t i = 0; i < count; i++) {
        const struct image_run *run = &runs[i];
        while (region < last && region->end <= run->address)
            region++;
        bool is_sound = region < last && run->address >= region->start &&
                        run->bytes <= region->end - run->address && run->data_offset % grain == 0 &&
                        run->data_offset >= IMAGE_PAGE_BYTES &&
                        (!is_whole || run->data_offset == image_offset(run->address));
        if (!is_sound)
            return belay_error_set(err, EINVAL, "damaged image: run %llu", (unsigned long long)i);
    }
    return 0;
}

/* ... and the file holds them, and those of a delta each have a sum, and a mask if they are encoded. */
static int check_data(const struct image_view *view, uint64_t file_bytes, struct belay_error *err)
{
    const struct image_header *header = view->header;
    struct image_piece piece = {0};
    uint64_t pages = 0, masks = 0;
    for (uint64_t i = 0; i < header->run_count; i++) {
        pages += view->runs[i].bytes / IMAGE_PAGE_BYTES;
        if (image_has_masks(view, i))
            masks += view->runs[i].bytes / IMAGE_PAGE_BYTES;
        if (masks > header->mask_count)
            break;
    }
    if (masks != header->mask_count)
        return belay_error_set(err, EINVAL, "damaged image: its masks are not of its pages");
    if (header->sum_count != (header->base_line > 0 ? pages : 0))
        return belay_error_set(err, EINVAL, "damaged image: it has %llu sums of %llu pages",
                               (unsigned long long)header->sum_count, (unsigned long long)pages);
    while (image_next_piece(view, &piece))
        if (piece.run->data_offset > file_bytes || piece.data_bytes > file_bytes - piece.run->data_offset)
            return belay_error_set(err, EINVAL, "damaged image: run %llu",
                                   (unsigned long long)piece.index - 1);
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

/* A header with the counts and offsets of all tables. */
static struct image_header plan_tables(const struct image_writer *writer, const struct image_pages *pages)
{
    struct image_header header = {
        .region_count = writer->region_count,
        .run_count = pages->runs->count,
        .drop_count = count_of(pages->drops),
        .present_count = count_of(pages->present),
        .sum_count = pages->present ? runs_bytes(pages->runs) / IMAGE_PAGE_BYTES : 0,
        .strings_bytes = writer->strings_bytes,
    };
    tables_place(&header);
    return header;
}

static void put_sums(uint64_t *to, const struct run_set *runs, const char *data)
{
    for (size_t i = 0; i < runs->count; i++) {
        const struct image_run *run = &runs->runs[i];
        sums_make(to, run->address, data + run->data_offset, run->bytes);
        to += run->bytes / IMAGE_PAGE_BYTES;
    }
}

/* The page data are the first data_bytes of the file. */
static int map_and_put_sums(uint64_t *to, const struct run_set *runs, int fd, uint64_t data_bytes,
                            struct belay_error *err)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && (uint64_t)st.st_size < data_bytes)
        return belay_error_set(err, EINVAL, "a delta ends before its pages do");
    char *data = mmap(NULL, data_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        return belay_error_errno(err, "cannot read the pages of a delta");
    put_sums(to, runs, data);
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
    if (tables_seal(&own, tables, err) < 0)
        return -1;
    if (write_all(fd, tables, own.tables_bytes, own.tables_offset) < 0 ||
        write_all(fd, &own, sizeof own, 0) < 0)
        return belay_error_errno(err, "cannot write the tables of an image");
    return 0;
}
