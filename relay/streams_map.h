/*
 * streams_map.h - the memory of standard streams, mapped as far as there are ranks (common/wire/streams.h).
 */
#ifndef BELAY_RELAY_STREAMS_MAP_H
#define BELAY_RELAY_STREAMS_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"
#include "common/wire/streams.h"

/* For the user of a map: of each stream. */
struct streams_known {
    uint64_t position;     /* told to the other side */
    struct stream_end end; /* that both sides have */
};

struct streams_map {
    int fds[2]; /* the memory, and what wakes its reader */
    struct streams *head;
    uint8_t *slots; /* of `ranks`; NULL: none */
    uint32_t ranks;
    struct streams_known *known;
};

/* fds are taken over, also on failure. Returns 0 or -1 with err. */
int streams_map_open(struct streams_map *map, const int fds[2], struct belay_error *err);
void streams_map_close(struct streams_map *map);

/* Have the slots of so many ranks; what is known of new ones is 0. Returns 0 or -1 with err. */
int streams_map_grow(struct streams_map *map, uint32_t ranks, struct belay_error *err);

struct stream *streams_map_stream(const struct streams_map *map, uint32_t rank, uint32_t which);
struct streams_known *streams_map_known(const struct streams_map *map, uint32_t rank, uint32_t which);

/* The end of a stream, as a whole: who looks sees the old one or this. */
void streams_map_set_end(struct stream *stream, const struct stream_end *end);

/* Copy into a ring at a position, or out of it; count is at most STREAMS_RING_BYTES. */
void streams_map_put(const struct streams_map *map, uint32_t rank, uint32_t which, uint64_t at,
                     const uint8_t *bytes, uint64_t count);
void streams_map_get(const struct streams_map *map, uint32_t rank, uint32_t which, uint64_t at,
                     uint8_t *bytes, uint64_t count);

#endif
