/*
 * undo.h - the files of a job as they were at its lines (common/wire/undo.h): put back at a restart,
 * forgotten when a newer line has committed.
 *
 * The ranks write the logs; nobody else but the agent reads and removes them. `folder` is a job's undo
 * folder, as undo_folder_of() names it; "" is none, for which all functions do nothing.
 */
#ifndef BELAY_NODE_AGENT_UNDO_H
#define BELAY_NODE_AGENT_UNDO_H

#include <stdint.h>

#include "common/util/error.h"

#define UNDO_FOLDER_BYTES 1024
#define UNDO_LIMIT_BYTES (1ull << 30) /* of each rank at each line, unless a job says otherwise */

/* Name the folder of a job: in `base`, "" for the run directory. Returns 0, or -1 with err. */
int undo_folder_of(const char *rundir, const char *base, const char *job, char folder[UNDO_FOLDER_BYTES],
                   struct belay_error *err);

/* Make it. What an earlier job left in the run directory is removed. Returns 0, or -1 with err. */
int undo_create(const char *folder, struct belay_error *err);

/*
 * Put files back to what they were at this line (0: at the start), and forget everything. No rank may be
 * running. Goes as far as it can; returns 0, or -1 with err, which names the first file that could not be put
 * back. Idempotent. Blocks for as long as copying takes.
 */
int undo_apply(const char *folder, uint64_t line, struct belay_error *err);

/* A line has committed: no restart will go back further. */
void undo_forget_before(const char *folder, uint64_t line);

/* Remove the folder with everything in it. */
void undo_remove(const char *folder);

/* Remove the run directory's part if no job is left in it. */
void undo_remove_base(const char *rundir);

#endif
