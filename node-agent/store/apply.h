/*
 * apply.h - makes the image of a line from the image of the line before and a delta.
 */
#ifndef BELAY_NODE_AGENT_STORE_APPLY_H
#define BELAY_NODE_AGENT_STORE_APPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/image/runs.h"
#include "common/util/error.h"

struct apply {
    int image, delta; /* borrowed */
    bool is_pinned;   /* the image must not change (pin.h): the delta is applied to a copy */
    int copy;         /* borrowed: this copy, if it was made before; -1: it is made now */
    bool is_tables;   /* both are without pages: their sums alone are applied */
    int rank;
    uint64_t base_line, line; /* the image's, and that of the delta */
    struct run_set *written;  /* out, if not NULL: the units that the delta has pages in (touched.h) */
    int made;                 /* out: a copy made now, owned by the caller; -1: none was */
    uint64_t bytes;           /* out: memory that the new image takes */
};

/* A copy of an image's pages and sums, without its tables. Returns a memfd that the caller owns, or -1 with
 * err. */
int apply_copy(int image, struct belay_error *err);

/*
 * Apply the delta. The call is idempotent, also after a crash at any point: pages, or the lines of them that
 * an encoded delta has, are overwritten. May run in a pool thread. Returns 0, or -1 with err; an image that
 * was being changed in place is invalid until the delta has been applied again.
 */
int apply_delta(struct apply *apply, struct belay_error *err);

#endif
