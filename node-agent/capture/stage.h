/*
 * stage.h - which pages have which place in a rank's staging buffer, and which of them are up to date there.
 *
 * Pages are copied ahead while the process runs; those that are written again afterwards are told by the
 * tracker and copied anew to the same place. All functions: the memory is locked; 0, or -1 with errno (and
 * err).
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_STAGE_H
#define BELAY_NODE_AGENT_CAPTURE_STAGE_H

#include "node-agent/capture/maps.h"
#include "node-agent/capture/memory.h"

/* These were written: their copies are out of date. */
int stage_outdate(struct memory *memory, const struct run_set *written);

/* Give a place to those pages that have none. */
int stage_place(struct memory *memory, const struct run_set *pages);

/*
 * Copy those pages to their places that are not up to date there. *copied_bytes grows by what was copied;
 * what cannot be read is an error (ESRCH: the process is gone).
 */
int stage_copy(struct memory *memory, const struct maps *maps, const struct run_set *pages,
               uint64_t *copied_bytes, struct belay_error *err);

/*
 * The process runs: copy what the tracker has told so far, as far as it stays below room_bytes of staging.
 * Memory that cannot be tracked is left for the pause, and so is what the process gives back meanwhile.
 */
int stage_ahead(struct memory *memory, const struct maps *maps, const struct tracker_pages *pages,
                uint64_t room_bytes, uint64_t *copied_bytes, struct belay_error *err);

#endif
