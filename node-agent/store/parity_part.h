/*
 * parity_part.h - the parity of a slot that this node holds, as a part of the store: an image, or a delta to
 * one (common/image/format.h, IMAGE_OF_PARITY), whose tables name the set.
 */
#ifndef BELAY_NODE_AGENT_STORE_PARITY_PART_H
#define BELAY_NODE_AGENT_STORE_PARITY_PART_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"
#include "coord/epoch.h"
#include "node-agent/store/store.h"

/* What a part of parity is of, by its tables; lines are left as they are. Returns 0, or -1 with err. */
int parity_part_read(int fd, struct parity_holding *holding, struct belay_error *err);
/* Whether both are of the same set, and held at the same position of it. */
bool parity_part_is_same(const struct parity_holding *one, const struct parity_holding *other);

struct parity_part_request {
    struct parity_holding holding; /* lines do not count */
    uint64_t line;
    uint32_t world; /* ranks of the job */
    int sum;        /* of all that has come; its pages are given back */
    int base;       /* the committed parity that it changes; -1: there is none, the sum is the parity */
};

/*
 * Make the part: new values of all pages that change. A whole image is made in `sum` itself. Returns a
 * descriptor that the caller owns, or -1 with err. Blocks; may run in any thread.
 */
int parity_part_make(const struct parity_part_request *request, struct belay_error *err);

#endif
