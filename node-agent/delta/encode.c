#include "node-agent/delta/encode.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/image/lines.h"
#include "common/image/tables.h"

#define PAGE IMAGE_PAGE_BYTES
#define BLOCK_PAGES 32u /* that a processor has in its cache, old and new */
#define BLOCK_BYTES (BLOCK_PAGES * PAGE)
/* What a run of its own takes, beside its pages: it has to save more than that. */
#define WHOLE_STRETCH 8u /* pages of which every line changed */
#define SAME_STRETCH 4u  /* pages of which none did */
#define FRESH_LINES 8u   /* of a changed page at least, for it to be compared with zeros, too */

/* A run of the result, and where the whole pages are that it is made of. */
struct piece {
    struct image_run run;
    enum image_encoding encoding;
    uint64_t from;       /* offset in the delta */
    uint64_t first_mask; /* of its pages */
    uint64_t source;     /* number of the delta's run */
};

struct encoded {
    int delta;
    struct image_header header;
    char *tables;
    struct encoded_figures figures;
    struct piece *pieces;
    uint64_t *masks, *sums; /* of pages, in the order of the pieces */
    size_t piece_count, mask_count, sum_count;

    /* what encoded_read() has come to */
    size_t piece;
    uint64_t done;      /* bytes of its pages */
    uint8_t rest[PAGE]; /* of a page for which there was no room */
    size_t rest_at, rest_bytes;
    char *block; /* pages of the delta */
    uint64_t block_offset, block_bytes;
};

/* While pages are compared. */
struct comparison {
    const struct image_view *delta, *base;
    int delta_fd, base_fd;
    uint64_t *masks;    /* of all pages of the delta */
    uint8_t *encodings; /* the same */
    uint64_t base_run;  /* the first one that does not end before the page */
    char *blocks;       /* BLOCK_BYTES of new pages, BLOCK_BYTES of old ones */
};

static int compare(struct comparison *comparison, struct belay_error *err);
static int compare_block(struct comparison *comparison, uint64_t address, uint64_t offset, uint64_t bytes,
                         uint64_t page, struct belay_error *err);
static bool is_in_base(struct comparison *comparison, uint64_t address);
static void collect(struct encoded *encoded, const struct comparison *comparison);
static int build_tables(struct encoded *encoded, const struct image_view *delta, struct belay_error *err);
static ssize_t read_whole(struct encoded *encoded, const struct piece *piece, void *to, size_t room);
static ssize_t read_lines(struct encoded *encoded, const struct piece *piece, uint8_t *to, size_t room);

static int check_pair(const struct image_view *delta, const struct image_view *base, struct belay_error *err)
{
    if (delta->header->base_line == 0 || delta->header->encoding_count > 0 || base->header->base_line > 0 ||
        base->header->line != delta->header->base_line || base->header->rank != delta->header->rank)
        return belay_error_set(err, EINVAL, "a delta cannot be compared with another image than its base");
    return 0;
}

struct encoded *encode_delta(int delta_fd, int base_fd, struct belay_error *err)
{
    struct image_view delta = {0}, base = {0};
    struct encoded *encoded = NULL;
    struct comparison comparison = {.delta = &delta, .base = &base, .delta_fd = delta_fd, .base_fd = base_fd};
    if (image_load(delta_fd, &delta, err) < 0 || image_load(base_fd, &base, err) < 0 ||
        check_pair(&delta, &base, err) < 0)
        goto done;
    uint64_t pages = delta.header->sum_count;
    encoded = calloc(1, sizeof *encoded);
    comparison.masks = calloc(pages + 1, sizeof *comparison.masks);
    comparison.encodings = calloc(pages + 1, 1);
    comparison.blocks = image_block(2 * BLOCK_BYTES);
    if (!encoded || !(encoded->pieces = calloc(pages + 1, sizeof *encoded->pieces)) ||
        !(encoded->masks = calloc(pages + 1, sizeof *encoded->masks)) ||
        !(encoded->sums = calloc(pages + 1, sizeof *encoded->sums)) || !comparison.masks ||
        !comparison.encodings || !comparison.blocks || !(encoded->block = image_block(BLOCK_BYTES))) {
        belay_error_set(err, ENOMEM, "no memory to compare a delta with its image");
        goto fail;
    }
    encoded->delta = delta_fd;
    if (compare(&comparison, err) < 0)
        goto fail;
    collect(encoded, &comparison);
    if (build_tables(encoded, &delta, err) == 0)
        goto done;
fail:
    encoded_destroy(encoded);
    encoded = NULL;
done:
    image_unload(&delta);
    image_unload(&base);
    free(comparison.masks);
    free(comparison.encodings);
    free(comparison.blocks);
    return encoded;
}

void encoded_destroy(struct encoded *encoded)
{
    if (!encoded)
        return;
    free(encoded->tables);
    free(encoded->pieces);
    free(encoded->masks);
    free(encoded->sums);
    free(encoded->block);
    free(encoded);
}

const struct image_header *encoded_header(const struct encoded *encoded)
{
    return &encoded->header;
}

const char *encoded_tables(const struct encoded *encoded)
{
    return encoded->tables;
}

const struct encoded_figures *encoded_figures(const struct encoded *encoded)
{
    return &encoded->figures;
}

ssize_t encoded_read(struct encoded *encoded, void *to, size_t room)
{
    size_t put = 0;
    while (put < room && (encoded->rest_bytes > 0 || encoded->piece < encoded->piece_count)) {
        const struct piece *piece = &encoded->pieces[encoded->piece];
        uint8_t *next = (uint8_t *)to + put;
        ssize_t got;
        if (encoded->rest_bytes > 0) {
            got = (ssize_t)(encoded->rest_bytes < room - put ? encoded->rest_bytes : room - put);
            memcpy(next, encoded->rest + encoded->rest_at, (size_t)got);
            encoded->rest_at += (size_t)got;
            encoded->rest_bytes -= (size_t)got;
        } else if (encoded->done == piece->run.bytes) {
            encoded->piece++;
            encoded->done = 0;
            got = 0;
        } else if (piece->encoding == IMAGE_PAGES) {
            got = read_whole(encoded, piece, next, room - put);
        } else {
            got = read_lines(encoded, piece, next, room - put);
        }
        if (got < 0)
            return -1;
        put += (size_t)got;
    }
    return (ssize_t)put;
}

static int read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = EIO;
        if (got <= 0)
            return -1;
        done += (size_t)got;
    }
    return 0;
}

static int compare(struct comparison *comparison, struct belay_error *err)
{
    uint64_t page = 0;
    for (uint64_t i = 0; i < comparison->delta->header->run_count; i++) {
        const struct image_run *run = &comparison->delta->runs[i];
        for (uint64_t done = 0, bytes; done < run->bytes; done += bytes, page += bytes / PAGE) {
            bytes = run->bytes - done < BLOCK_BYTES ? run->bytes - done : BLOCK_BYTES;
            if (compare_block(comparison, run->address + done, run->data_offset + done, bytes, page, err) < 0)
                return -1;
        }
    }
    return 0;
}

/*
 * A page that the image does not name is not in it, whatever lies at its place. One that became zeros for the
 * most part takes less as a fresh one.
 */
static int compare_block(struct comparison *comparison, uint64_t address, uint64_t offset, uint64_t bytes,
                         uint64_t page, struct belay_error *err)
{
    const char *fresh = comparison->blocks, *old = comparison->blocks + BLOCK_BYTES;
    if (read_at(comparison->delta_fd, comparison->blocks, bytes, offset) < 0)
        return belay_error_errno(err, "cannot read the pages of a delta");
    if (image_read_pages(comparison->base_fd, address, comparison->blocks + BLOCK_BYTES, bytes, err) < 0)
        return -1;
    for (uint64_t at = 0; at < bytes; at += PAGE, page++) {
        bool is_old = is_in_base(comparison, address + at);
        uint64_t mask = lines_compare(is_old ? old + at : NULL, fresh + at);
        comparison->encodings[page] = is_old ? IMAGE_LINES : IMAGE_FRESH;
        comparison->masks[page] = mask;
        if (!is_old || lines_bytes(mask) < FRESH_LINES * LINE_BYTES)
            continue;
        uint64_t content = lines_compare(NULL, fresh + at);
        if (lines_bytes(content) < lines_bytes(mask)) {
            comparison->encodings[page] = IMAGE_FRESH;
            comparison->masks[page] = content;
        }
    }
    return 0;
}

/* Called with ascending addresses. */
static bool is_in_base(struct comparison *comparison, uint64_t address)
{
    const struct image_view *base = comparison->base;
    while (comparison->base_run < base->header->run_count &&
           base->runs[comparison->base_run].address + base->runs[comparison->base_run].bytes <= address)
        comparison->base_run++;
    return comparison->base_run < base->header->run_count &&
           base->runs[comparison->base_run].address <= address;
}

/* How many pages from here on are of this encoding and mask. */
static uint64_t stretch(const struct comparison *comparison, uint64_t page, uint64_t end, uint64_t mask)
{
    uint64_t from = page;
    while (page < end && comparison->masks[page] == mask &&
           (mask == LINES_ALL || comparison->encodings[page] == IMAGE_LINES))
        page++;
    return page - from;
}

/* A run of the delta is inside one region, and so is each that is made of it. */
static void add_pages(struct encoded *encoded, const struct piece *pages, const uint64_t *masks,
                      const uint64_t *sums)
{
    struct piece *last = encoded->piece_count > 0 ? &encoded->pieces[encoded->piece_count - 1] : NULL;
    uint64_t count = pages->run.bytes / PAGE;
    if (last && last->encoding == pages->encoding && last->source == pages->source &&
        last->run.address + last->run.bytes == pages->run.address &&
        last->from + last->run.bytes == pages->from) {
        last->run.bytes += pages->run.bytes;
    } else {
        last = &encoded->pieces[encoded->piece_count++];
        *last = *pages;
        last->first_mask = encoded->mask_count;
        last->run.data_offset = PAGE + encoded->header.data_bytes;
    }
    memcpy(encoded->sums + encoded->sum_count, sums, count * sizeof *sums);
    encoded->sum_count += count;
    if (pages->encoding == IMAGE_PAGES) {
        encoded->header.data_bytes += pages->run.bytes;
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        encoded->masks[encoded->mask_count++] = masks[i];
        encoded->header.data_bytes += lines_bytes(masks[i]);
    }
}

/* Long stretches of whole pages need no masks, and what did not change is not there. */
static void collect(struct encoded *encoded, const struct comparison *comparison)
{
    const struct image_view *delta = comparison->delta;
    uint64_t first = 0, count;
    for (uint64_t i = 0; i < delta->header->run_count; i++) {
        const struct image_run *run = &delta->runs[i];
        uint64_t end = first + run->bytes / PAGE;
        for (uint64_t page = first; page < end; page += count) {
            uint64_t at = (page - first) * PAGE, same = stretch(comparison, page, end, 0);
            uint64_t whole = stretch(comparison, page, end, LINES_ALL);
            encoded->figures.same_pages += same;
            if ((count = same) >= SAME_STRETCH)
                continue;
            count = whole >= WHOLE_STRETCH ? whole : same > 0 ? same : 1;
            const struct piece pages = {.run = {run->address + at, count * PAGE, 0},
                                        .encoding = whole >= WHOLE_STRETCH
                                                        ? IMAGE_PAGES
                                                        : (enum image_encoding)comparison->encodings[page],
                                        .from = run->data_offset + at,
                                        .source = i};
            add_pages(encoded, &pages, comparison->masks + page, delta->sums + page);
        }
        first = end;
    }
    encoded->figures.pages = first;
    encoded->figures.lines = encoded->header.data_bytes / LINE_BYTES;
}

static int build_tables(struct encoded *encoded, const struct image_view *delta, struct belay_error *err)
{
    struct image_header own = *delta->header;
    own.run_count = own.encoding_count = encoded->piece_count;
    own.sum_count = encoded->sum_count;
    own.mask_count = encoded->mask_count;
    own.data_bytes = encoded->header.data_bytes;
    own.tables_offset = PAGE + own.data_bytes;
    tables_place(&own);
    char *tables = calloc(1, own.tables_bytes);
    if (!tables)
        return belay_error_set(err, ENOMEM, "no memory to compare a delta with its image");
    encoded->tables = tables;
    struct image_run *runs = (struct image_run *)(void *)(tables + own.run_offset);
    uint64_t *encodings = (uint64_t *)(void *)(tables + own.encoding_offset);
    for (size_t i = 0; i < encoded->piece_count; i++) {
        runs[i] = encoded->pieces[i].run;
        encodings[i] = encoded->pieces[i].encoding;
    }
    memcpy(tables + own.region_offset, delta->regions, own.region_count * sizeof *delta->regions);
    memcpy(tables + own.drop_offset, delta->drops, own.drop_count * sizeof *delta->drops);
    memcpy(tables + own.present_offset, delta->present, own.present_count * sizeof *delta->present);
    memcpy(tables + own.sum_offset, encoded->sums, own.sum_count * sizeof *encoded->sums);
    memcpy(tables + own.mask_offset, encoded->masks, own.mask_count * sizeof *encoded->masks);
    memcpy(tables + own.strings_offset, delta->strings, own.strings_bytes);
    if (tables_seal(&own, tables, err) < 0)
        return -1;
    encoded->header = own;
    encoded->figures.bytes = sizeof own + own.tables_bytes + own.data_bytes;
    encoded->figures.page_bytes = sizeof own + delta->header->tables_bytes + delta->header->data_bytes;
    return 0;
}

static ssize_t read_whole(struct encoded *encoded, const struct piece *piece, void *to, size_t room)
{
    uint64_t left = piece->run.bytes - encoded->done, bytes = left < room ? left : room;
    if (read_at(encoded->delta, to, bytes, piece->from + encoded->done) < 0)
        return -1;
    encoded->done += bytes;
    return (ssize_t)bytes;
}

/* The page of the delta at an offset, of a piece that ends there. */
static const char *page_at(struct encoded *encoded, uint64_t offset, uint64_t end)
{
    if (offset < encoded->block_offset || offset >= encoded->block_offset + encoded->block_bytes) {
        uint64_t bytes = end - offset < BLOCK_BYTES ? end - offset : BLOCK_BYTES;
        encoded->block_bytes = 0;
        if (read_at(encoded->delta, encoded->block, bytes, offset) < 0)
            return NULL;
        encoded->block_offset = offset;
        encoded->block_bytes = bytes;
    }
    return encoded->block + (offset - encoded->block_offset);
}

/* The lines of the next page; those that there is no room for are kept. */
static ssize_t read_lines(struct encoded *encoded, const struct piece *piece, uint8_t *to, size_t room)
{
    uint64_t mask = encoded->masks[piece->first_mask + encoded->done / PAGE];
    size_t bytes = lines_bytes(mask);
    bool has_room = bytes <= room;
    const char *page = NULL;
    if (bytes > 0 && !(page = page_at(encoded, piece->from + encoded->done, piece->from + piece->run.bytes)))
        return -1;
    lines_pack(mask, page, has_room ? to : encoded->rest);
    encoded->done += PAGE;
    if (has_room)
        return (ssize_t)bytes;
    encoded->rest_at = 0;
    encoded->rest_bytes = bytes;
    return 0;
}
