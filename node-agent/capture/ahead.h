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

/* The limits of copying ahead. */
struct stage_limits {
    uint64_t room_bytes;      /* memory for staging, at most */
    uint64_t most_bytes;      /* copy nothing if there is more to be copied than this */
    bool is_repeated;         /* leave out pages that will have been written again before the pause */
    const bool *is_cancelled; /* set by another thread: stop soon */
};

/*
 * Copy `pages` to the stage while the process runs. Three kinds are left for the pause: memory that cannot be
 * tracked, hot pages (hot.h), and pages that the process gives back meanwhile. The caller holds the memory's
 * lock. *copied_bytes: the bytes copied. Returns 0, or -1 with err.
 */
int ahead_copy(struct memory *memory, const struct maps *maps, const struct tracker_pages *pages,
               const struct stage_limits *limits, uint64_t *copied_bytes, struct belay_error *err);

#endif
