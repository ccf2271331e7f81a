/*
 * apply.h - makes a line's image out of the image of the line before and a delta.
 */
#ifndef BELAY_NODE_AGENT_STORE_APPLY_H
#define BELAY_NODE_AGENT_STORE_APPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"

struct apply {
    int image, delta; /* borrowed */
    bool is_pinned;   /* somebody needs the image as it is (pin.h): a copy of it is changed */
    int copy;         /* borrowed: such a copy, if it was made before; -1: it is made now */
    int rank;
    uint64_t base_line, line; /* the image's, and that of the delta */
    int made;                 /* out: a copy made now, owned by the caller; -1: none was */
    uint64_t bytes;           /* out: that the image takes now */
};

/* A copy of an image's pages, without its tables. Returns a memfd that the caller owns, or -1 with err. */
int apply_copy(int image, struct belay_error *err);

/*
 * Apply. Doing it again from any point gives the same: pages are written, not combined. May run in a pool
 * thread. Returns 0, or -1 with err; an image changed in place is then of no use until it is done again.
 */
int apply_delta(struct apply *apply, struct belay_error *err);

#endif
