#include "common/image/image.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct image_writer {
    struct image_region *regions;
    size_t region_count, region_room;
    struct image_run *runs;
    size_t run_count, run_room;
    char *strings;
    size_t strings_bytes, strings_room;
    uint32_t program;
    uint64_t data_bytes;
};

static int check_header(const struct image_header *header, size_t bytes, struct belay_error *err);
static bool is_table(uint64_t offset, uint64_t count, uint64_t size, uint64_t limit);
static int check_regions(const struct image_view *view, struct belay_error *err);
static int check_runs(const struct image_view *view, struct belay_error *err);
static void *grow(void *array, size_t count, size_t *room, size_t size);
static int add_string(struct image_writer *writer, const char *text, uint32_t *offset);
static void place(const struct image_writer *writer, struct image_header *header);
static int write_head(char *head, size_t bytes, const struct image_header *header, int fd,
                      struct belay_error *err);

int image_open(const void *base, size_t bytes, struct image_view *view, struct belay_error *err)
{
    const struct image_header *header = base;
    if (check_header(header, bytes, err) < 0)
        return -1;
    const char *start = base;
    struct image_view checked = {
        .header = header,
        .regions = (const struct image_region *)(start + header->region_offset),
        .runs = (const struct image_run *)(start + header->run_offset),
        .strings = start + header->strings_offset,
    };
    if (checked.strings[0] != '\0' || checked.strings[header->strings_bytes - 1] != '\0' ||
        header->program >= header->strings_bytes)
        return belay_error_set(err, EINVAL, "damaged image: its strings are not terminated");
    if (check_regions(&checked, err) < 0 || check_runs(&checked, err) < 0)
        return -1;
    *view = checked;
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
        free(writer->runs);
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
    void *array = grow(writer->regions, writer->region_count, &writer->region_room, sizeof *writer->regions);
    if (!array)
        return -1;
    writer->regions = array;
    struct image_region added = *region;
    added.path = 0;
    if (path && path[0] && add_string(writer, path, &added.path) < 0)
        return -1;
    writer->regions[writer->region_count++] = added;
    return 0;
}

int image_writer_add_run(struct image_writer *writer, uint64_t address, uint64_t bytes)
{
    const struct image_run *last = writer->run_count ? &writer->runs[writer->run_count - 1] : NULL;
    if (bytes == 0 || (address | bytes) % IMAGE_PAGE_BYTES ||
        (last && address < last->address + last->bytes)) {
        errno = EINVAL;
        return -1;
    }
    void *array = grow(writer->runs, writer->run_count, &writer->run_room, sizeof *writer->runs);
    if (!array)
        return -1;
    writer->runs = array;
    writer->runs[writer->run_count++] = (struct image_run){.address = address, .bytes = bytes};
    writer->data_bytes += bytes;
    return 0;
}

int image_writer_set_program(struct image_writer *writer, const char *path)
{
    return add_string(writer, path, &writer->program);
}

uint64_t image_writer_total_bytes(const struct image_writer *writer)
{
    struct image_header header = {0};
    place(writer, &header);
    return header.total_bytes;
}

const struct image_run *image_writer_runs(struct image_writer *writer, size_t *count)
{
    struct image_header header = {0};
    place(writer, &header);
    uint64_t offset = header.data_offset;
    for (size_t i = 0; i < writer->run_count; i++) {
        writer->runs[i].data_offset = offset;
        offset += writer->runs[i].bytes;
    }
    *count = writer->run_count;
    return writer->runs;
}

int image_writer_finish(struct image_writer *writer, const struct image_header *header, int fd,
                        struct belay_error *err)
{
    struct image_header own = {
        .line = header->line,
        .rank = header->rank,
        .ranks = header->ranks,
        .resume_context = header->resume_context,
        .program = writer->program,
        .layout_version = header->layout_version,
    };
    size_t run_count;
    memcpy(own.identity, header->identity, sizeof own.identity);
    image_writer_runs(writer, &run_count);
    place(writer, &own);

    char *head = calloc(1, own.data_offset);
    if (!head)
        return belay_error_errno(err, "cannot build the tables of an image");
    memcpy(head + own.region_offset, writer->regions, writer->region_count * sizeof *writer->regions);
    memcpy(head + own.run_offset, writer->runs, writer->run_count * sizeof *writer->runs);
    memcpy(head + own.strings_offset, writer->strings, writer->strings_bytes);
    int rc = write_head(head, own.data_offset, &own, fd, err);
    int code = errno;
    free(head);
    errno = code;
    return rc;
}

static int check_header(const struct image_header *header, size_t bytes, struct belay_error *err)
{
    if (bytes < sizeof *header || header->magic != IMAGE_MAGIC)
        return belay_error_set(err, EINVAL, "not a checkpoint image");
    if (header->version != IMAGE_VERSION || header->header_bytes != sizeof *header)
        return belay_error_set(err, EINVAL, "image of format %u; this Belay reads format %u", header->version,
                               IMAGE_VERSION);
    uint64_t head = header->data_offset < bytes ? header->data_offset : bytes;
    bool is_sound =
        header->data_offset <= bytes && header->data_offset % IMAGE_PAGE_BYTES == 0 &&
        header->data_bytes % IMAGE_PAGE_BYTES == 0 &&
        header->data_bytes <= UINT64_MAX - header->data_offset &&
        header->total_bytes == header->data_offset + header->data_bytes && header->rank < header->ranks &&
        header->strings_bytes > 0 && header->strings_bytes <= UINT32_MAX &&
        is_table(header->region_offset, header->region_count, sizeof(struct image_region), head) &&
        is_table(header->run_offset, header->run_count, sizeof(struct image_run), head) &&
        is_table(header->strings_offset, header->strings_bytes, 1, head);
    return is_sound ? 0 : belay_error_set(err, EINVAL, "damaged image: its header is out of bounds");
}

static bool is_table(uint64_t offset, uint64_t count, uint64_t size, uint64_t limit)
{
    bool is_aligned = size == 1 || offset % sizeof(uint64_t) == 0;
    return is_aligned && offset >= sizeof(struct image_header) && offset <= limit &&
           count <= (limit - offset) / size;
}

static int check_regions(const struct image_view *view, struct belay_error *err)
{
    uint64_t end = 0;
    for (uint64_t i = 0; i < view->header->region_count; i++) {
        const struct image_region *region = &view->regions[i];
        bool is_sound = region->start >= end && region->start < region->end &&
                        (region->start | region->end) % IMAGE_PAGE_BYTES == 0 &&
                        region->kind > IMAGE_REGION_NONE && region->kind <= IMAGE_REGION_SHARED_FILE &&
                        region->path < view->header->strings_bytes;
        if (!is_sound)
            return belay_error_set(err, EINVAL, "damaged image: region %llu", (unsigned long long)i);
        end = region->end;
    }
    return 0;
}

static int check_runs(const struct image_view *view, struct belay_error *err)
{
    const struct image_header *header = view->header;
    const struct image_region *region = view->regions, *last = view->regions + header->region_count;
    uint64_t end = 0;
    for (uint64_t i = 0; i < header->run_count; i++) {
        const struct image_run *run = &view->runs[i];
        while (region < last && region->end <= run->address)
            region++;
        uint64_t data_start = run->data_offset - header->data_offset;
        bool is_sound = region < last && run->address >= end && run->address >= region->start &&
                        run->bytes > 0 && run->bytes <= region->end - run->address &&
                        (run->address | run->bytes | run->data_offset) % IMAGE_PAGE_BYTES == 0 &&
                        run->data_offset >= header->data_offset && run->bytes <= header->data_bytes &&
                        data_start <= header->data_bytes - run->bytes;
        if (!is_sound)
            return belay_error_set(err, EINVAL, "damaged image: run %llu", (unsigned long long)i);
        end = run->address + run->bytes;
    }
    return 0;
}

/* Room for one more element. Returns the array, or NULL with ENOMEM (the old one stays valid). */
static void *grow(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    size_t more = *room ? *room * 2 : 64;
    void *larger = realloc(array, more * size);
    if (larger)
        *room = more;
    return larger;
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
    if (writer->strings_bytes + bytes > writer->strings_room) {
        size_t room = (writer->strings_bytes + bytes) * 2;
        char *larger = realloc(writer->strings, room);
        if (!larger)
            return -1;
        writer->strings = larger;
        writer->strings_room = room;
    }
    memcpy(writer->strings + writer->strings_bytes, text, bytes);
    *offset = (uint32_t)writer->strings_bytes;
    writer->strings_bytes += bytes;
    return 0;
}

/* Fill in the header's sizes and offsets. */
static void place(const struct image_writer *writer, struct image_header *header)
{
    header->magic = IMAGE_MAGIC;
    header->version = IMAGE_VERSION;
    header->header_bytes = sizeof *header;
    header->region_count = writer->region_count;
    header->region_offset = sizeof *header;
    header->run_count = writer->run_count;
    header->run_offset = header->region_offset + writer->region_count * sizeof *writer->regions;
    header->strings_bytes = writer->strings_bytes;
    header->strings_offset = header->run_offset + writer->run_count * sizeof *writer->runs;
    uint64_t end = header->strings_offset + writer->strings_bytes;
    header->data_offset = (end + IMAGE_PAGE_BYTES - 1) / IMAGE_PAGE_BYTES * IMAGE_PAGE_BYTES;
    header->data_bytes = writer->data_bytes;
    header->total_bytes = header->data_offset + header->data_bytes;
}

/* The header goes last, so that an image cut short has no magic number. It is checked as a reader would. */
static int write_head(char *head, size_t bytes, const struct image_header *header, int fd,
                      struct belay_error *err)
{
    size_t done = sizeof *header;
    while (done < bytes) {
        ssize_t wrote = pwrite(fd, head + done, bytes - done, (off_t)done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return belay_error_errno(err, "cannot write the tables of an image");
        done += (size_t)wrote;
    }
    struct image_view view;
    memcpy(head, header, sizeof *header);
    if (image_open(head, bytes, &view, err) < 0)
        return -1;
    if (pwrite(fd, header, sizeof *header, 0) != (ssize_t)sizeof *header)
        return belay_error_errno(err, "cannot write the header of an image");
    return 0;
}
