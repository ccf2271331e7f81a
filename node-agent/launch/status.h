/*
 * status.h - the status of a job as a message.
 */
#ifndef BELAY_NODE_AGENT_LAUNCH_STATUS_H
#define BELAY_NODE_AGENT_LAUNCH_STATUS_H

#include "common/wire/belay.pb-c.h"
#include "node-agent/job/history.h"
#include "node-agent/job/job.h"

/* The caller frees it with belay__wire__job_status__free_unpacked(status, NULL). NULL with ENOMEM. */
Belay__Wire__JobStatus *status_make(const struct job *job);

/* Take over into a job what a status of it says (history, counters). Returns 0 or -1 with ENOMEM. */
int status_take(struct job *job, const Belay__Wire__JobStatus *status);

#endif
