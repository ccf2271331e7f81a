/*
 * pack.h - blocks of bytes made smaller, and made again: of each 8 bytes all first bytes come first, then all
 * second ones and so on (numbers that differ little have equal high bytes), which lz4 or zstd compresses.
 *
 * What comes is believed in nothing: sizes are checked before they are used, and no block makes more than
 * PACK_BLOCK_BYTES. Whether the content is right, sums over it tell, which are others' concern.
 */
#ifndef BELAY_NODE_AGENT_DELTA_PACK_H
#define BELAY_NODE_AGENT_DELTA_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACK_BLOCK_BYTES (UINT32_C(1) << 16) /* of content, at most */
#define PACK_PACKED_BYTES (PACK_BLOCK_BYTES) /* of a block as it goes, at most, without what is in front */

enum packing {
    PACKING_NONE = 0, /* as it is */
    PACKING_LZ4,
    PACKING_ZSTD,
    PACKINGS,
};

/* By its name in settings ("": none). False: there is no such packing. */
bool packing_parse(const char *name, enum packing *packing);

/* In front of each block. */
struct pack_head {
    uint32_t packing; /* enum packing: NONE if it does not become smaller */
    uint32_t raw_bytes, packed_bytes;
};

/* What packing and unpacking take as scratch. */
struct pack_room {
    uint8_t shuffled[PACK_BLOCK_BYTES];
};

/* Pack `count` bytes, 1 to PACK_BLOCK_BYTES, into packed[PACK_PACKED_BYTES]. */
struct pack_head pack_block(enum packing packing, const uint8_t *raw, size_t count, uint8_t *packed,
                            struct pack_room *room);
/* Whether a head can be one: its packed bytes, so many, follow. */
bool pack_head_is_sound(const struct pack_head *head);
/* Make raw[PACK_BLOCK_BYTES] of the packed bytes of a sound head. Returns 0, or -1 with EBADMSG. */
int unpack_block(const struct pack_head *head, const uint8_t *packed, uint8_t *raw, struct pack_room *room);

#endif
