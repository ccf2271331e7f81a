/*
 * What comes compressed from another agent (node-agent/delta/pack_stream.c). The first byte chooses how large
 * its pieces are, the second one how much it may make. What it makes is packed again, and has to come back.
 */
#include <errno.h>
#include <string.h>

#include "node-agent/delta/pack_stream.h"
#include "tests/fuzz/target.h"

#define MADE_MAX (1u << 20)

struct made {
    uint8_t *bytes;
    size_t count, max, at;
};

static int take(void *context, const uint8_t *bytes, size_t count)
{
    struct made *made = context;
    must(count > 0 && count <= PACK_BLOCK_BYTES && made->count + count <= made->max);
    memcpy(made->bytes + made->count, bytes, count);
    made->count += count;
    return 0;
}

static ssize_t fill(void *context, uint8_t *to, size_t room)
{
    struct made *made = context;
    size_t left = made->count - made->at, count = left < room ? left : room;
    memcpy(to, made->bytes + made->at, count);
    made->at += count;
    return (ssize_t)count;
}

static void check_round(struct made *made, enum packing packing)
{
    struct made again = {.bytes = malloc(made->count), .max = made->count};
    struct packer *packer = packer_create(packing, fill, made);
    struct unpacker *unpacker = unpacker_create(made->count, take, &again);
    uint8_t buffer[4096];
    uint64_t sent = 0;
    ssize_t count;
    must(again.bytes && packer && unpacker);
    made->at = 0;
    while ((count = packer_fill(packer, buffer, sizeof buffer)) > 0) {
        must(unpacker_take(unpacker, buffer, (size_t)count) == 0);
        sent += (uint64_t)count;
    }
    must(count == 0 && unpacker_is_whole(unpacker) && sent <= packer_bound(made->count));
    must(again.count == made->count && memcmp(again.bytes, made->bytes, made->count) == 0);
    unpacker_destroy(unpacker);
    packer_destroy(packer);
    free(again.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static uint8_t room[MADE_MAX];
    if (count < 2)
        return 0;
    struct made made = {.bytes = room, .max = (size_t)bytes[1] << 12};
    struct unpacker *unpacker = unpacker_create(made.max, take, &made);
    size_t piece = bytes[0] >> 2 ? (size_t)(bytes[0] >> 2) * 97 : count;
    int rc = 0;
    must(unpacker);
    for (size_t at = 2; at < count && rc == 0; at += piece) {
        size_t part = count - at < piece ? count - at : piece;
        uint8_t *copy = target_copy(bytes + at, part);
        rc = unpacker_take(unpacker, copy, part);
        must(rc == 0 || errno == EBADMSG);
        free(copy);
    }
    unpacker_destroy(unpacker);
    for (enum packing packing = PACKING_NONE; made.count > 0 && packing < PACKINGS; packing++)
        check_round(&made, packing);
    return 0;
}
