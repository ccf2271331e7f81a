/*
 * capacity.h - do the agent's limits suffice for another job, or for this many ranks? Asked before a launch
 * begins: otherwise a line would be aborted later, or the ranks that come last would be turned away.
 */
#ifndef BELAY_NODE_AGENT_JOB_CAPACITY_H
#define BELAY_NODE_AGENT_JOB_CAPACITY_H

#include <stdint.h>

#include "common/util/error.h"
#include "node-agent/job/job.h"

/* Descriptors at most: the agent's own, of a job, of a rank. The keeper, whose limit is the same, needs
 * fewer. */
#define CAPACITY_BASE_FDS 32u
#define CAPACITY_JOB_FDS 10u
#define CAPACITY_RANK_FDS 12u

/*
 * Is there room for this job with this many ranks, beside all others? The job may be in the table or not.
 * ranks 0: not known yet. Returns 0, or -1 with an err for the user (EMFILE, ENOMEM).
 */
int capacity_check(const struct agent *agent, const struct job *job, uint32_t ranks, struct belay_error *err);

#endif
