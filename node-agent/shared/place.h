/*
 * place.h - where in the image's address space the contents of each shared thing lie.
 *
 * An object keeps its place from line to line, so that a delta holds only its changed pages.
 */
#ifndef BELAY_NODE_AGENT_SHARED_PLACE_H
#define BELAY_NODE_AGENT_SHARED_PLACE_H

#include "common/util/error.h"
#include "node-agent/shared/object.h"

/* The place of one object. */
struct place {
    struct object_key key;
    uint64_t address, bytes; /* bytes: the size to which it may grow there */
};

struct places {
    struct place *all; /* ascending by address */
    size_t count;
};

void places_release(struct places *places);

/* Give each object its address: that of `former` if it is there and has room, else a free one. Sorts them. */
int places_assign(const struct places *former, struct objects *objects, struct belay_error *err);

/* The places of all objects, as assigned. Returns 0 or -1 with ENOMEM. */
int places_note(const struct objects *objects, struct places *to);

#endif
