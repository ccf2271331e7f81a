/*
 * cow_chunks.h - the chunks in which protected pages are copied. A chunk is copied as a whole, and its
 * protection is lifted as a whole.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_COW_CHUNKS_H
#define BELAY_NODE_AGENT_CAPTURE_COW_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/image/runs.h"

enum chunk_state {
    CHUNK_TODO = 0,
    CHUNK_COPYING, /* by some thread, which lifts the protection afterwards */
    CHUNK_DONE,
};

struct chunk {
    uint64_t start, end; /* the range whose protection is lifted */
    enum chunk_state state;
    bool is_sample;  /* stays protected when it has been copied, to tell whether it is written */
    bool is_written; /* a writer has met its protection */
};

/* In ascending order. A zeroed struct has none. */
struct chunks {
    struct chunk *list;
    size_t count;
};

#define CHUNK_BYTES (256ull << 10)    /* of small pages: copied in about 50 us */
#define CHUNK_HUGE_BYTES (2ull << 20) /* a huge page, which is protected and lifted as a whole */

/*
 * The chunks of these pages; those that lie in `huge` pages have the size of one. One in four, or about 128
 * of many, are samples; `turn` tells which. Returns 0, or -1 with ENOMEM.
 */
int chunks_make(struct chunks *chunks, const struct run_set *pages, const struct run_set *huge,
                uint64_t turn);
void chunks_release(struct chunks *chunks);

/* The chunk that has the address; NULL: none. */
struct chunk *chunks_find(const struct chunks *chunks, uint64_t address);
/* The first chunk that ends behind an address; count: none does. */
size_t chunks_from(const struct chunks *chunks, uint64_t address);

/* Of the samples in a range: how many, and how many of them have been written. */
void chunks_count_samples(const struct chunks *chunks, uint64_t start, uint64_t end, size_t *samples,
                          size_t *written);

#endif
