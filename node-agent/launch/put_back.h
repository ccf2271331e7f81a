/*
 * put_back.h - before the launch of an epoch the job's files are put back (undo/undo.h), in a thread of its
 * own: that may take minutes, or for ever where a file server hangs, and the agent serves other jobs as well.
 */
#ifndef BELAY_NODE_AGENT_LAUNCH_PUT_BACK_H
#define BELAY_NODE_AGENT_LAUNCH_PUT_BACK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"

struct job;
struct put_back;

/* Putting back has ended; err: NULL, or the file that could not be put back and why. The job may be freed. */
typedef void put_back_done_f(struct job *job, void *context, const struct belay_error *err);

/*
 * Begin to put the files back to this line, which the job's arbiter has chosen and whose images are here. The
 * arbiter hears which files are left as they are, and from time to time how far the work is. job->put_back is
 * the run until it is done. Returns 0 or -1 with err.
 */
int put_back_start(struct job *job, uint64_t line, put_back_done_f *done, void *context,
                   struct belay_error *err);

/* Whether ranks that run here, as the epoch that was entered places them, shared something at this line. */
bool put_back_has_shared(const struct job *job, uint64_t line);

/* The job is about to be freed: nobody hears of the end, which comes soon. Accepts NULL. */
void put_back_leave(struct put_back *run);

#endif
