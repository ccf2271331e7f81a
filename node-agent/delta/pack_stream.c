#include "node-agent/delta/pack_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"

struct packer {
    enum packing packing;
    pack_fill_f *fill;
    void *context;
    bool has_ended; /* fill() has no more */
    struct packed_figures figures;
    size_t at, end;                /* of the block: what has not been given yet */
    uint8_t raw[PACK_BLOCK_BYTES]; /* that is packed next */
    uint8_t block[sizeof(struct pack_head) + PACK_PACKED_BYTES];
    struct pack_room room;
};

struct unpacker {
    pack_take_f *take;
    void *context;
    uint64_t left; /* that it may still make */
    size_t got;    /* of the block, with its head */
    struct pack_head head;
    uint8_t packed[PACK_PACKED_BYTES], raw[PACK_BLOCK_BYTES];
    struct pack_room room;
};

struct packer *packer_create(enum packing packing, pack_fill_f *fill, void *context)
{
    struct packer *packer = malloc(sizeof *packer);
    if (!packer)
        return NULL;
    packer->packing = packing;
    packer->fill = fill;
    packer->context = context;
    packer->has_ended = false;
    packer->figures = (struct packed_figures){0};
    packer->at = packer->end = 0;
    return packer;
}

void packer_destroy(struct packer *packer)
{
    free(packer);
}

/* As many bytes as a block has, but for the last one. Returns how many, or -1 with errno. */
static ssize_t read_raw(struct packer *packer)
{
    size_t count = 0;
    while (!packer->has_ended && count < PACK_BLOCK_BYTES) {
        ssize_t got = packer->fill(packer->context, packer->raw + count, PACK_BLOCK_BYTES - count);
        if (got < 0)
            return -1;
        packer->has_ended = got == 0;
        count += (size_t)got;
    }
    return (ssize_t)count;
}

/* Returns 0 or -1 with errno; at the end nothing is in the block. */
static int next_block(struct packer *packer)
{
    ssize_t count = read_raw(packer);
    if (count <= 0)
        return (int)count;
    uint64_t begin_ns = clock_now_ns();
    const struct pack_head head = pack_block(packer->packing, packer->raw, (size_t)count,
                                             packer->block + sizeof(struct pack_head), &packer->room);
    packer->figures.ns += clock_now_ns() - begin_ns;
    memcpy(packer->block, &head, sizeof head);
    packer->at = 0;
    packer->end = sizeof head + head.packed_bytes;
    packer->figures.raw_bytes += (uint64_t)count;
    packer->figures.packed_bytes += packer->end;
    return 0;
}

ssize_t packer_fill(struct packer *packer, uint8_t *to, size_t room)
{
    size_t put = 0;
    while (put < room) {
        if (packer->at == packer->end) {
            packer->at = packer->end = 0;
            if (next_block(packer) < 0)
                return -1;
            if (packer->end == 0)
                break;
        }
        size_t left = packer->end - packer->at, count = left < room - put ? left : room - put;
        memcpy(to + put, packer->block + packer->at, count);
        packer->at += count;
        put += count;
    }
    return (ssize_t)put;
}

uint64_t packer_bound(uint64_t bytes)
{
    return bytes + (bytes / PACK_BLOCK_BYTES + 1) * sizeof(struct pack_head);
}

struct packed_figures packer_figures(const struct packer *packer)
{
    return packer->figures;
}

#define TELLING_BYTES (UINT64_C(1) << 18) /* fewer tell more of delays than of rates */
#define PROBE_EVERY 16u

bool pack_is_worth(struct pack_rates *rates)
{
    bool is_probe = ++rates->count % PROBE_EVERY == 0;
    return !is_probe && rates->link_s > 0 && rates->pack_s < rates->link_s;
}

static double follow(double rate_s, uint64_t bytes, uint64_t ns)
{
    double now_s = (double)ns / 1e9 / (double)bytes;
    return rate_s > 0 ? (rate_s + now_s) / 2 : now_s;
}

void pack_note_link(struct pack_rates *rates, uint64_t bytes, uint64_t ns)
{
    if (bytes >= TELLING_BYTES && ns > 0)
        rates->link_s = follow(rates->link_s, bytes, ns);
}

void pack_note_packed(struct pack_rates *rates, const struct packed_figures *figures)
{
    if (figures->raw_bytes >= TELLING_BYTES && figures->ns > 0)
        rates->pack_s = follow(rates->pack_s, figures->raw_bytes, figures->ns);
}

struct unpacker *unpacker_create(uint64_t bytes_max, pack_take_f *take, void *context)
{
    struct unpacker *unpacker = malloc(sizeof *unpacker);
    if (!unpacker)
        return NULL;
    unpacker->take = take;
    unpacker->context = context;
    unpacker->left = bytes_max;
    unpacker->got = 0;
    return unpacker;
}

void unpacker_destroy(struct unpacker *unpacker)
{
    free(unpacker);
}

static int end_block(struct unpacker *unpacker)
{
    if (unpack_block(&unpacker->head, unpacker->packed, unpacker->raw, &unpacker->room) < 0)
        return -1;
    unpacker->left -= unpacker->head.raw_bytes;
    unpacker->got = 0;
    return unpacker->take(unpacker->context, unpacker->raw, unpacker->head.raw_bytes);
}

/* Of the head, or of what follows it. Returns how many bytes were used. */
static size_t collect(struct unpacker *unpacker, const uint8_t *bytes, size_t count)
{
    size_t head_bytes = sizeof unpacker->head;
    bool is_head = unpacker->got < head_bytes;
    size_t missing =
        is_head ? head_bytes - unpacker->got : head_bytes + unpacker->head.packed_bytes - unpacker->got;
    size_t used = count < missing ? count : missing;
    uint8_t *to = is_head ? (uint8_t *)&unpacker->head + unpacker->got
                          : unpacker->packed + (unpacker->got - head_bytes);
    memcpy(to, bytes, used);
    unpacker->got += used;
    return used;
}

int unpacker_take(struct unpacker *unpacker, const uint8_t *bytes, size_t count)
{
    while (count > 0) {
        size_t used = collect(unpacker, bytes, count);
        bytes += used;
        count -= used;
        if (unpacker->got < sizeof unpacker->head)
            continue;
        if (!pack_head_is_sound(&unpacker->head) || unpacker->head.raw_bytes > unpacker->left) {
            errno = EBADMSG;
            return -1;
        }
        if (unpacker->got == sizeof unpacker->head + unpacker->head.packed_bytes && end_block(unpacker) < 0)
            return -1;
    }
    return 0;
}

bool unpacker_is_whole(const struct unpacker *unpacker)
{
    return unpacker->got == 0;
}
