/*
 * memory.h - the memories (capture/memory.h) of the ranks that this node has in an epoch.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_MEMORY_H
#define BELAY_NODE_AGENT_MEMBER_MEMORY_H

#include <stdint.h>

#include "node-agent/capture/memory.h"

struct line_member;

/*
 * The memories of ranks that have been started, or restored from the job's committed line. They use the job's
 * tracker; if it cannot track a rank, each line captures all of this rank. NULL with err: a rank is gone
 * (ESRCH, ENOENT), or a resource is missing.
 */
struct memory **memories_create(struct line_member *member, struct belay_error *err);

/*
 * Read which writes to their memory the ranks say to be invisible to trackers. Called before pages are copied
 * ahead, and again when all ranks stand still. The user is told once of each kind (enum control_unseen).
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
