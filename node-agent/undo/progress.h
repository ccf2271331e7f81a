/*
 * progress.h - how far putting back has come: a small file in the undo folder, so that an agent that is
 * killed in between, or meets a full disk, goes on where it was. Steps that were done are not done again; the
 * one that was being done may be, and finds itself done.
 */
#ifndef BELAY_NODE_AGENT_UNDO_PROGRESS_H
#define BELAY_NODE_AGENT_UNDO_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"

#define PROGRESS_ALL UINT64_MAX /* as `done`: what is left is to forget */

struct progress {
    uint64_t magic;
    uint64_t line, steps; /* the line, and its number of steps */
    uint64_t done, left;  /* steps done; files that are left as they are */
};

bool progress_exists(int folder);

/*
 * The descriptor of the file, which is made if need be, and in *progress how far it is. -1 with err: it is of
 * another line, or the logs are not those that it began with. progress->done may be PROGRESS_ALL; steps
 * do not count then.
 */
int progress_open(int folder, struct progress *progress, struct belay_error *err);
int progress_save(int fd, const struct progress *progress);
void progress_remove(int folder);

#endif
