/*
 * record.h - what outlives the agent: job records in the keeper, and the status files of ended jobs.
 *
 * In the keeper, under JOB/job: a memfd with a JobRecord, replaced at each change. In the run directory,
 * a status file (common/wire/status_file.h) of an ended job, for tools that ask when no agent runs.
 */
#ifndef BELAY_NODE_AGENT_LAUNCH_RECORD_H
#define BELAY_NODE_AGENT_LAUNCH_RECORD_H

#include <stdbool.h>

#include "common/wire/belay.pb-c.h"
#include "node-agent/job/agent.h"
#include "node-agent/job/job.h"

#define RECORD_MAX_BYTES (16 << 20)

/*
 * Have the keeper hold the job's record: without a record, the job cannot outlive the agent. If this fails,
 * an older record stays. Returns 0, or -1 with err.
 */
int record_save(struct job *job, struct belay_error *err);
/* The same for a job that has a record; a failure is logged, and told to the arbiter. */
void record_save_again(struct job *job);
/* All ranks of the newest launch run: a later restart may use its launch line, directory and environment. */
void record_take_launch(struct job *job);
void record_drop(struct job *job);

/*
 * Take up what a former agent left with the keeper: jobs that have a committed line become ended jobs in
 * the table, in state "lost"; everything else is dropped. Returns 0 or -1 with err.
 */
int record_adopt(struct agent *agent, struct belay_error *err);

/* Write the status file of an ended job. A failure is logged, and told to the arbiter. */
void record_write_status(struct job *job);

/* Remove status files older than BELAY_RECORD_AGE; those of jobs that the agent holds stay. */
void record_remove_old(struct agent *agent);

#endif
