/*
 * encode.h - a delta of whole pages becomes one of lines of 64 bytes (common/image/format.h): its pages are
 * compared with those of the image that it changes.
 *
 * Encoding reads delta and image once. The packed lines are read a second time, as they are asked for, and
 * are never in memory as a whole. Neither file is mapped: a delta's memory may be cut off when its line is
 * over, and what was read then does not count.
 */
#ifndef BELAY_NODE_AGENT_DELTA_ENCODE_H
#define BELAY_NODE_AGENT_DELTA_ENCODE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/image/format.h"
#include "common/util/error.h"

struct encoded;

/* What encoding has found. */
struct encoded_figures {
    uint64_t pages;      /* of the delta */
    uint64_t same_pages; /* of them, those whose bytes are the image's */
    uint64_t lines;      /* that are sent */
    uint64_t bytes;      /* of header, tables and data */
    uint64_t page_bytes; /* the same of the delta in whole pages */
};

/*
 * Compare the delta with the image of its base line. May run in a pool thread; blocks. Neither changes
 * meanwhile, nor until the result is destroyed. The descriptors are borrowed until then. NULL with err
 * (EINVAL: the delta is not one to this image, or is encoded already).
 */
struct encoded *encode_delta(int delta, int base, struct belay_error *err);
/* Accepts NULL. */
void encoded_destroy(struct encoded *encoded);

/* Its header, and the block of tables that belongs at the header's tables_offset. The packed data begin at
 * IMAGE_PAGE_BYTES. */
const struct image_header *encoded_header(const struct encoded *encoded);
const char *encoded_tables(const struct encoded *encoded);
const struct encoded_figures *encoded_figures(const struct encoded *encoded);

/* The next bytes of the packed data, as many as there is room for. Returns their number, 0 at the end, or -1
 * with errno. In one thread at a time. */
ssize_t encoded_read(struct encoded *encoded, void *to, size_t room);

#endif
