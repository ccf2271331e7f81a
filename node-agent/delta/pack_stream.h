/*
 * pack_stream.h - a stream of bytes packed on its way to another node (pack.h), and unpacked there: in front
 * of whoever fills, and of whoever takes.
 *
 * All functions may be called in any thread, for one stream one at a time.
 */
#ifndef BELAY_NODE_AGENT_DELTA_PACK_STREAM_H
#define BELAY_NODE_AGENT_DELTA_PACK_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "node-agent/delta/pack.h"

/* As fabric_fill_f: the next bytes, 0 at the end, -1 with errno. */
typedef ssize_t pack_fill_f(void *context, uint8_t *to, size_t room);
/* The next bytes. Returns 0 or -1 with errno. */
typedef int pack_take_f(void *context, const uint8_t *bytes, size_t count);

struct packer;

/* Of what fill() gives. NULL with ENOMEM. */
struct packer *packer_create(enum packing packing, pack_fill_f *fill, void *context);
/* Accepts NULL. */
void packer_destroy(struct packer *packer);
/* The next bytes, packed, as fill(). */
ssize_t packer_fill(struct packer *packer, uint8_t *to, size_t room);
/* How many bytes go at most, if so many are to be packed. */
uint64_t packer_bound(uint64_t bytes);
/* How much has been given, of what, and how long that took the processor. */
struct packed_figures {
    uint64_t raw_bytes, packed_bytes, ns;
};
struct packed_figures packer_figures(const struct packer *packer);

struct unpacker;

/*
 * Whether packing takes less time than what it saves: the link is slower than the packer, as far as both were
 * measured. An unpacked transfer tells of the link, a packed one of the packer; now and then one goes
 * unpacked, since links change.
 */
struct pack_rates {
    double link_s, pack_s; /* of a byte; 0: not known */
    uint32_t count;        /* of transfers that were decided */
};
bool pack_is_worth(struct pack_rates *rates);
/* So many bytes have gone unpacked in this time; few tell nothing. */
void pack_note_link(struct pack_rates *rates, uint64_t bytes, uint64_t ns);
void pack_note_packed(struct pack_rates *rates, const struct packed_figures *figures);

/* Into take(), so many bytes at most. NULL with ENOMEM. */
struct unpacker *unpacker_create(uint64_t bytes_max, pack_take_f *take, void *context);
/* Accepts NULL. */
void unpacker_destroy(struct unpacker *unpacker);
/* The next packed bytes. Returns 0, or -1 with errno: EBADMSG, or take()'s. */
int unpacker_take(struct unpacker *unpacker, const uint8_t *bytes, size_t count);
/* Whether it ends where a block does. */
bool unpacker_is_whole(const struct unpacker *unpacker);

#endif
