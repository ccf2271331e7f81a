#include "node-agent/store/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/image/image.h"
#include "common/image/lines.h"
#include "common/image/sums.h"
#include "node-agent/store/touched.h"

#define BLOCK_BYTES (1ull << 20)
#define LINES_BLOCK_BYTES (32 * IMAGE_PAGE_BYTES) /* that a processor has in its cache */

static int copy_from(int image, uint64_t start, struct belay_error *err);
static int copy_data(int from, int to, uint64_t first, struct belay_error *err);
static int copy_extent(int from, int to, off_t start, off_t end, char *block, struct belay_error *err);
static int write_runs(const struct image_view *view, int delta, int image, struct belay_error *err);
static int write_lines(const struct image_piece *piece, const char *data, int image, struct belay_error *err);
static int write_sums(const struct image_view *view, int image, struct belay_error *err);
static int punch_drops(const struct image_view *view, int image, struct belay_error *err);

int apply_delta(struct apply *apply, struct belay_error *err)
{
    struct image_view view = {0};
    int image = apply->is_pinned ? apply->copy : apply->image, copy = -1;
    bool is_to_flip = fault_hit("agent.apply", apply->rank, apply->line);
    if (image_load(apply->delta, &view, err) < 0)
        return -1;
    if (is_to_flip)
        fault_flip(apply->delta, image_first_data(&view));
    if (view.header->base_line != apply->base_line || view.header->line != apply->line) {
        belay_error_set(err, EINVAL, "a delta does not belong to the image of line %llu",
                        (unsigned long long)apply->base_line);
        goto fail;
    }
    if (sums_check_tables(&view, err) < 0)
        goto fail;
    if (image < 0) {
        image = copy = copy_from(apply->image, apply->is_tables ? sums_offset(0) : IMAGE_DATA_BASE, err);
        if (copy < 0)
            goto fail;
    }
    if (apply->is_tables ? write_sums(&view, image, err) < 0
                         : write_runs(&view, apply->delta, image, err) < 0)
        goto fail;
    fault_hit("agent.apply.pages", apply->rank, apply->line);
    if (!apply->is_tables && punch_drops(&view, image, err) < 0)
        goto fail;
    apply->bytes = image_adopt_tables(&view, image, err);
    if (apply->bytes == 0)
        goto fail;
    if (apply->is_tables)
        apply->bytes = image_tables_bytes(&view);
    apply->made = copy;
    if (apply->written) /* without memory nothing is known of it, which costs time at most */
        touched_round(view.runs, view.header->run_count, apply->written);
    image_unload(&view);
    fault_hit("agent.apply.done", apply->rank, apply->line);
    return 0;
fail:
    if (copy >= 0)
        close(copy);
    image_unload(&view);
    return -1;
}

int apply_copy(int image, struct belay_error *err)
{
    return copy_from(image, IMAGE_DATA_BASE, err);
}

static int copy_from(int image, uint64_t start, struct belay_error *err)
{
    int copy = image_make_memfd(err);
    if (copy >= 0 && copy_data(image, copy, start, err) < 0) {
        close(copy);
        return -1;
    }
    return copy;
}

/* Whatever is in the file behind its tables, which may be those of an apply that was cut short. */
static int copy_data(int from, int to, uint64_t first, struct belay_error *err)
{
    char *block = image_block(BLOCK_BYTES);
    off_t start = (off_t)first, end;
    int rc = block ? 0 : -1;
    while (rc == 0 && (start = lseek(from, start, SEEK_DATA)) >= 0) {
        end = lseek(from, start, SEEK_HOLE);
        rc = end < 0 ? -1 : copy_extent(from, to, start, end, block, err);
        start = end;
    }
    free(block);
    if (rc == 0 && errno != ENXIO)
        rc = belay_error_errno(err, "cannot copy an image");
    return rc;
}

static int copy_extent(int from, int to, off_t start, off_t end, char *block, struct belay_error *err)
{
    while (start < end) {
        size_t want = (uint64_t)(end - start) < BLOCK_BYTES ? (size_t)(end - start) : BLOCK_BYTES;
        ssize_t got = pread(from, block, want, start);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || pwrite(to, block, (size_t)got, start) != got)
            return belay_error_errno(err, "no memory for a copy of an image");
        start += got;
    }
    return 0;
}

static int write_runs(const struct image_view *view, int delta, int image, struct belay_error *err)
{
    uint64_t bytes = view->header->tables_offset; /* page data lie before */
    const char *data = mmap(NULL, bytes, PROT_READ, MAP_SHARED, delta, 0);
    if (data == MAP_FAILED)
        return belay_error_errno(err, "cannot map a delta");
    struct image_piece piece = {0};
    int rc = 0;
    while (rc == 0 && image_next_piece(view, &piece)) {
        if (piece.run->data_offset > bytes || piece.data_bytes > bytes - piece.run->data_offset)
            rc = belay_error_set(err, EINVAL, "damaged delta: run %llu", (unsigned long long)piece.index - 1);
        else if (piece.masks)
            rc = write_lines(&piece, data + piece.run->data_offset, image, err);
        else
            rc = image_move_pages(image, piece.run->address, data + piece.run->data_offset, piece.sums,
                                  piece.run->bytes, err);
    }
    munmap((void *)(uintptr_t)data, bytes);
    return rc;
}

/* In place: what is not in a mask stays, so that a second time makes the same pages. */
static int write_lines(const struct image_piece *piece, const char *data, int image, struct belay_error *err)
{
    char *block = malloc(LINES_BLOCK_BYTES);
    int rc = block ? 0 : belay_error_set(err, ENOMEM, "no memory to apply a delta");
    for (uint64_t done = 0, bytes; rc == 0 && done < piece->run->bytes; done += bytes) {
        uint64_t address = piece->run->address + done, first = done / IMAGE_PAGE_BYTES;
        bytes = piece->run->bytes - done < LINES_BLOCK_BYTES ? piece->run->bytes - done : LINES_BLOCK_BYTES;
        if (piece->encoding == IMAGE_FRESH)
            memset(block, 0, bytes);
        else
            rc = image_read_pages(image, address, block, bytes, err);
        for (uint64_t at = 0; rc == 0 && at < bytes; at += IMAGE_PAGE_BYTES)
            data +=
                lines_unpack(piece->masks[first + at / IMAGE_PAGE_BYTES], data, IMAGE_PAGE_BYTES, block + at);
        if (rc == 0)
            rc = image_move_pages(image, address, block, piece->sums + first, bytes, err);
    }
    free(block);
    return rc;
}

static int write_sums(const struct image_view *view, int image, struct belay_error *err)
{
    const uint64_t *sums = view->sums;
    for (uint64_t i = 0; i < view->header->run_count; i++) {
        const struct image_run *run = &view->runs[i];
        size_t bytes = SUMS_OF_BYTES(run->bytes);
        if (pwrite(image, sums, bytes, (off_t)sums_offset(run->address)) != (ssize_t)bytes)
            return belay_error_set(err, ENOSPC, "no memory for the sums of an image");
        sums += run->bytes / IMAGE_PAGE_BYTES;
    }
    return 0;
}

static int punch_drops(const struct image_view *view, int image, struct belay_error *err)
{
    for (uint64_t i = 0; i < view->header->drop_count; i++) {
        const struct image_run *drop = &view->drops[i];
        if (fallocate(image, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)image_offset(drop->address),
                      (off_t)drop->bytes) < 0)
            return belay_error_errno(err, "cannot give back pages of an image");
    }
    return 0;
}
