/*
 * packed.h - the pages of a whole image as if they lay one behind the other: byte 0 is the first byte of the
 * first run. Both ends of a load (load.h, lend_pages.h) have the same tables, so they mean the same bytes.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_PACKED_H
#define BELAY_NODE_AGENT_MEMBER_PACKED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/image/image.h"

struct packed {
    const struct image_run *runs; /* borrowed from a view */
    uint64_t count;
    uint64_t *starts; /* of each run, and at the end of the last one: how many bytes there are */
};

/* Returns 0 or -1 with ENOMEM. The view must stay loaded. */
int packed_begin(struct packed *packed, const struct image_view *view);
/* Accepts a zeroed one. */
void packed_release(struct packed *packed);

uint64_t packed_bytes(const struct packed *packed);

/* Where the byte at an address lies. False: it is in no run. */
bool packed_find(const struct packed *packed, uint64_t address, uint64_t *offset);
/* Where the first byte at or behind an address lies; packed_bytes() if there is none. */
uint64_t packed_from(const struct packed *packed, uint64_t address);

/* A part of one run. */
struct packed_piece {
    uint64_t address, bytes;
};

/* The longest piece that begins at this offset and ends at `end` at the latest. False: there is none. */
bool packed_piece(const struct packed *packed, uint64_t offset, uint64_t end, struct packed_piece *piece);

#endif
