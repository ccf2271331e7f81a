#include "node-agent/delta/pack.h"

#include <errno.h>
#include <lz4.h>
#include <string.h>
#include <zstd.h>

#define WORD 8u
#define ZSTD_LEVEL 1

static const char *const names[PACKINGS] = {
    [PACKING_NONE] = "none", [PACKING_LZ4] = "lz4", [PACKING_ZSTD] = "zstd"};

bool packing_parse(const char *name, enum packing *packing)
{
    *packing = PACKING_NONE;
    if (!*name)
        return true;
    for (int i = 0; i < PACKINGS; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *packing = (enum packing)i;
        return true;
    }
    return false;
}

/* What is left over of the last word stays behind the rest. */
static void shuffle(const uint8_t *from, uint8_t *to, size_t count)
{
    size_t words = count / WORD;
    for (size_t i = 0; i < WORD; i++)
        for (size_t word = 0; word < words; word++)
            to[i * words + word] = from[word * WORD + i];
    memcpy(to + words * WORD, from + words * WORD, count % WORD);
}

static void unshuffle(const uint8_t *from, uint8_t *to, size_t count)
{
    size_t words = count / WORD;
    for (size_t i = 0; i < WORD; i++)
        for (size_t word = 0; word < words; word++)
            to[word * WORD + i] = from[i * words + word];
    memcpy(to + words * WORD, from + words * WORD, count % WORD);
}

/* 0: it does not become smaller. */
static size_t compress_to(enum packing packing, const uint8_t *from, size_t count, uint8_t *to, size_t room)
{
    if (packing == PACKING_LZ4) {
        int bytes = LZ4_compress_default((const char *)from, (char *)to, (int)count, (int)room);
        return bytes > 0 ? (size_t)bytes : 0;
    }
    size_t bytes = ZSTD_compress(to, room, from, count, ZSTD_LEVEL);
    return ZSTD_isError(bytes) ? 0 : bytes;
}

struct pack_head pack_block(enum packing packing, const uint8_t *raw, size_t count, uint8_t *packed,
                            struct pack_room *room)
{
    size_t bytes = 0;
    if (packing != PACKING_NONE) {
        shuffle(raw, room->shuffled, count);
        bytes = compress_to(packing, room->shuffled, count, packed, count - 1);
    }
    if (bytes == 0) {
        memcpy(packed, raw, count);
        return (struct pack_head){PACKING_NONE, (uint32_t)count, (uint32_t)count};
    }
    return (struct pack_head){packing, (uint32_t)count, (uint32_t)bytes};
}

bool pack_head_is_sound(const struct pack_head *head)
{
    return head->packing < PACKINGS && head->raw_bytes > 0 && head->raw_bytes <= PACK_BLOCK_BYTES &&
           head->packed_bytes > 0 &&
           (head->packing == PACKING_NONE ? head->packed_bytes == head->raw_bytes
                                          : head->packed_bytes < head->raw_bytes);
}

int unpack_block(const struct pack_head *head, const uint8_t *packed, uint8_t *raw, struct pack_room *room)
{
    size_t count = head->raw_bytes, got = 0;
    if (head->packing == PACKING_NONE) {
        memcpy(raw, packed, count);
        return 0;
    }
    if (head->packing == PACKING_LZ4) {
        int bytes = LZ4_decompress_safe((const char *)packed, (char *)room->shuffled, (int)head->packed_bytes,
                                        (int)count);
        got = bytes > 0 ? (size_t)bytes : 0;
    } else {
        size_t bytes = ZSTD_decompress(room->shuffled, count, packed, head->packed_bytes);
        got = ZSTD_isError(bytes) ? 0 : bytes;
    }
    if (got != count) {
        errno = EBADMSG;
        return -1;
    }
    unshuffle(room->shuffled, raw, count);
    return 0;
}
