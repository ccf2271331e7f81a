#include "common/archive/part.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/image/image.h"
#include "common/image/sums.h"

#define BLOCK_BYTES (1u << 20)

/* Where bytes go from, and where to. */
struct copying {
    int from, to;
    char *block;
    const bool *is_stopped; /* NULL: never */
};

void archive_part_name(uint32_t part, uint32_t ranks, char name[ARCHIVE_NAME_BYTES])
{
    if (part < ranks)
        snprintf(name, ARCHIVE_NAME_BYTES, "rank-%" PRIu32, part);
    else
        snprintf(name, ARCHIVE_NAME_BYTES, "shared-%" PRIu32, part - ranks);
}

static int put_all(int fd, const void *bytes, uint64_t count, off_t at, bool is_placed)
{
    const char *from = bytes;
    while (count > 0) {
        ssize_t put = is_placed ? pwrite(fd, from, count, at) : write(fd, from, count);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            errno = put == 0 ? ENOSPC : errno;
            return -1;
        }
        from += put;
        at += put;
        count -= (uint64_t)put;
    }
    return 0;
}

/* 1: the file has ended before. */
static int get_all(int fd, void *bytes, uint64_t count, off_t at, bool is_placed)
{
    char *to = bytes;
    while (count > 0) {
        ssize_t got = is_placed ? pread(fd, to, count, at) : read(fd, to, count);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            return 1;
        to += got;
        at += got;
        count -= (uint64_t)got;
    }
    return 0;
}

/* ---- writing ---- */

/* Header, tables, runs, and the sums of these: range `number` of 2 + 2 * runs. */
static struct archive_range range_of(const struct image_view *view, uint64_t number)
{
    const struct image_header *header = view->header;
    if (number == 0)
        return (struct archive_range){0, sizeof *header};
    if (number == 1)
        return (struct archive_range){header->tables_offset, header->tables_bytes};
    const struct image_run *run = &view->runs[(number - 2) / 2];
    return number % 2 == 0 ? (struct archive_range){run->data_offset, run->bytes}
                           : (struct archive_range){sums_offset(run->address), SUMS_OF_BYTES(run->bytes)};
}

static int write_range(const struct copying *copying, const struct archive_range *range)
{
    if (put_all(copying->to, range, sizeof *range, 0, false) < 0)
        return -1;
    for (uint64_t at = 0, count; at < range->bytes; at += count) {
        count = range->bytes - at < BLOCK_BYTES ? range->bytes - at : BLOCK_BYTES;
        if (__atomic_load_n(copying->is_stopped, __ATOMIC_SEQ_CST)) {
            errno = ECANCELED;
            return -1;
        }
        int rc = get_all(copying->from, copying->block, count, (off_t)(range->offset + at), true);
        if (rc > 0)
            errno = EIO;
        if (rc != 0 || put_all(copying->to, copying->block, count, 0, false) < 0)
            return -1;
    }
    return 0;
}

static int write_ranges(const struct copying *copying, const struct image_view *view,
                        struct archive_part_head head, uint64_t *bytes)
{
    head.range_count = 2 + 2 * view->header->run_count;
    *bytes = sizeof head;
    if (put_all(copying->to, &head, sizeof head, 0, false) < 0)
        return -1;
    for (uint64_t number = 0; number < head.range_count; number++) {
        const struct archive_range range = range_of(view, number);
        if (number == 2 && fault_hit("agent.archive.write", (int)head.part, head.line)) {
            errno = EIO;
            return -1;
        }
        if (write_range(copying, &range) < 0)
            return -1;
        *bytes += sizeof range + range.bytes;
    }
    return 0;
}

int archive_part_write(int folder, const struct archive_part_head *head, int fd, const bool *is_stopped,
                       uint64_t *bytes, struct belay_error *err)
{
    struct image_view view;
    char name[ARCHIVE_NAME_BYTES];
    archive_part_name(head->part, head->ranks, name);
    if (image_load(fd, &view, err) < 0)
        return -1;
    struct copying copying = {
        .from = fd, .to = archive_begin_file(folder, name, err), .is_stopped = is_stopped};
    copying.block = copying.to >= 0 ? image_block(BLOCK_BYTES) : NULL;
    int rc = copying.block ? write_ranges(&copying, &view, *head, bytes) : -1;
    if (rc < 0 && copying.to >= 0) {
        belay_error_errno(err, "cannot write the archive's %s", name);
        archive_drop_file(folder, name, copying.to);
    }
    free(copying.block);
    image_unload(&view);
    return rc < 0 ? -1 : archive_end_file(folder, name, copying.to, err);
}

/* ---- reading ---- */

/* What is not in it, is told by the image's own sums. */
static bool is_sound(const struct archive_range *range)
{
    uint64_t end = image_end();
    return range->offset <= end && range->bytes <= end - range->offset;
}

static int read_range(const struct copying *copying, uint64_t *left)
{
    struct archive_range range;
    if (*left < sizeof range)
        return 1;
    int rc = get_all(copying->from, &range, sizeof range, 0, false);
    *left -= sizeof range;
    if (rc != 0 || !is_sound(&range) || range.bytes > *left)
        return rc < 0 ? -1 : 1;
    *left -= range.bytes;
    for (uint64_t at = 0, count; at < range.bytes; at += count) {
        count = range.bytes - at < BLOCK_BYTES ? range.bytes - at : BLOCK_BYTES;
        rc = get_all(copying->from, copying->block, count, 0, false);
        if (rc != 0)
            return rc;
        if (put_all(copying->to, copying->block, count, (off_t)(range.offset + at), true) < 0)
            return -1;
    }
    return 0;
}

static bool is_expected(const struct archive_part_head *head, const struct archive_part_head *expected)
{
    return head->magic == ARCHIVE_PART_MAGIC && head->line == expected->line &&
           head->part == expected->part && head->ranks == expected->ranks;
}

/* Returns 0, 1: it is damaged, or -1 with errno. */
static int read_ranges(const struct copying *copying, const struct archive_part_head *expected, uint64_t left,
                       struct archive_part_head *head)
{
    if (left < sizeof *head)
        return 1;
    int rc = get_all(copying->from, head, sizeof *head, 0, false);
    left -= sizeof *head;
    if (rc != 0 || !is_expected(head, expected))
        return rc < 0 ? -1 : 1;
    if (head->version != ARCHIVE_PART_VERSION || head->image_version != IMAGE_VERSION)
        return 1;
    for (uint64_t number = 0; number < head->range_count && rc == 0; number++)
        rc = read_range(copying, &left);
    return rc == 0 && left > 0 ? 1 : rc;
}

int archive_part_read(int folder, const struct archive_part_head *expected, uint64_t bytes, int memfd,
                      struct belay_error *err)
{
    char name[ARCHIVE_NAME_BYTES];
    uint64_t has = 0;
    struct archive_part_head head = {0};
    archive_part_name(expected->part, expected->ranks, name);
    struct copying copying = {.from = archive_open_file(folder, name, bytes, &has, err), .to = memfd};
    if (copying.from < 0)
        return -1;
    copying.block = image_block(BLOCK_BYTES);
    int rc = !copying.block ? -1 : has == bytes ? read_ranges(&copying, expected, has, &head) : 1;
    int code = errno;
    close(copying.from);
    free(copying.block);
    errno = code;
    if (rc < 0)
        return belay_error_errno(err, "the archive's %s cannot be read", name);
    bool is_other = head.magic == ARCHIVE_PART_MAGIC &&
                    (head.version != ARCHIVE_PART_VERSION || head.image_version != IMAGE_VERSION);
    if (rc > 0 && is_other)
        return belay_error_set(err, EPROTO, "the archive's %s was written by another version of Belay", name);
    return rc > 0 ? belay_error_set(err, EBADMSG, "the archive's %s is damaged", name) : 0;
}
