/*
 * ahead.h - copies what the tracker has told while the process runs, so that less is left for the pause.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_AHEAD_H
#define BELAY_NODE_AGENT_CAPTURE_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"
#include "node-agent/capture/maps.h"
#include "node-agent/capture/memory.h"
#include "node-agent/capture/tracker.h"

/* What copying ahead has to keep to. */
struct stage_limits {
    uint64_t room_bytes;      /* staged at most */
    uint64_t most_bytes;      /* not worth a copy if there is more to be copied than this */
    bool is_repeated;         /* nor if it will have been written again by then */
    const bool *is_cancelled; /* set by another thread: stop soon */
};

/*
 * Left for the pause are memory that cannot be tracked, pages that were written again while lines before were
 * taken, and what the process gives back meanwhile. The memory is locked. Returns 0, or -1 with err.
 */
int ahead_copy(struct memory *memory, const struct maps *maps, const struct tracker_pages *pages,
               const struct stage_limits *limits, uint64_t *copied_bytes, struct belay_error *err);

#endif
