/*
 * line_memory.h - the memories (capture/memory.h) of all ranks of an epoch.
 */
#ifndef BELAY_NODE_AGENT_LINE_LINE_MEMORY_H
#define BELAY_NODE_AGENT_LINE_LINE_MEMORY_H

#include <stdint.h>

#include "node-agent/capture/memory.h"
#include "node-agent/job/job.h"
#include "node-agent/rank/rank.h"

/*
 * For ranks that have been started, or restored from the job's committed line. With the job's tracker;
 * where that cannot follow a rank, everything is captured at each line. NULL with err: a rank has gone
 * (ESRCH, ENOENT), or something lacks.
 */
struct memory **memories_create(struct job *job, struct rank *const *ranks, uint32_t count,
                                struct belay_error *err);

/*
 * Look how the ranks say that their memory is written to unseen. Before pages are copied ahead, and again
 * when all stand still. The user is told once of each way; *told are those (enum control_unseen), 0 at first.
 */
void memories_look(struct job *job, struct memory **memories, struct rank *const *ranks, uint32_t count,
                   uint32_t *told);

/* The epoch of `former` (NULL: none) is over: memory_inherit() for each rank. */
void memories_inherit(struct memory **memories, uint32_t count, struct memory **former,
                      uint32_t former_count);

/* Accepts NULL. */
void memories_destroy(struct memory **memories, uint32_t count);

#endif
