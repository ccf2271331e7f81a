/*
 * place.h - where in the image's address space the contents of each shared thing lie.
 *
 * A thing keeps its place from line to line, so that a delta holds only what has changed in it.
 */
#ifndef BELAY_NODE_AGENT_SHARED_PLACE_H
#define BELAY_NODE_AGENT_SHARED_PLACE_H

#include "common/util/error.h"
#include "node-agent/shared/object.h"

/* Where a thing is. */
struct place {
    struct object_key key;
    uint64_t address, bytes; /* bytes: that it may grow to there */
};

struct places {
    struct place *all; /* ascending by address */
    size_t count;
};

void places_release(struct places *places);

/* Give each object its address: that of `former` if it is there and has room, else a free one. Sorts them. */
int places_assign(const struct places *former, struct objects *objects, struct belay_error *err);

/* What was assigned. Returns 0 or -1 with ENOMEM. */
int places_note(const struct objects *objects, struct places *to);

#endif
