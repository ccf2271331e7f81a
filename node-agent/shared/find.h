/*
 * find.h - which things the ranks of a node share, and how their contents can be read.
 */
#ifndef BELAY_NODE_AGENT_SHARED_FIND_H
#define BELAY_NODE_AGENT_SHARED_FIND_H

#include "common/util/error.h"
#include "node-agent/shared/notes.h"
#include "node-agent/shared/object.h"

/*
 * Find all shared objects and open their contents. Objects of System V, pipes and eventfds that cannot be
 * read are left out; `complaint` (of complaint_bytes) then names the first, else it is "". Returns 0, or -1
 * with err (EACCES: a file cannot be read, so that no restart could restore it; the complaint names it).
 */
int shared_find(const struct shared_rank *ranks, uint32_t count, struct objects *objects, char *complaint,
                size_t complaint_bytes, struct belay_error *err);

/* Whether the file system is in memory. If so, mapped files of it are kept with the images, else by
 * vk_undo.h. */
bool shared_is_in_memory(const char *path);

#endif
