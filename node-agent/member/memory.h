/*
 * memory.h - the memories (capture/memory.h) of the ranks that this node has in an epoch.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_MEMORY_H
#define BELAY_NODE_AGENT_MEMBER_MEMORY_H

#include <stdint.h>

#include "node-agent/capture/memory.h"

struct line_member;

/*
 * For ranks that have been started, or restored from the job's committed line. With the job's tracker;
 * where that cannot follow a rank, everything is captured at each line. NULL with err: a rank has gone
 * (ESRCH, ENOENT), or something lacks.
 */
struct memory **memories_create(struct line_member *member, struct belay_error *err);

/*
 * Look how the ranks say that their memory is written to unseen. Before pages are copied ahead, and again
 * when all stand still. The user is told once of each way (unseen_told; enum control_unseen).
 */
void memories_look(struct line_member *member);

/* memory_inherit() for each rank that was here in the epoch before, too. */
void memories_inherit(struct line_member *member);

/* The epoch is over: its memories become the former ones, in place of those of the epoch before. */
void memories_retire(struct line_member *member);
void memories_forget_former(struct line_member *member);

/* Accepts NULL. */
void memories_destroy(struct memory **memories, uint32_t count);

#endif
