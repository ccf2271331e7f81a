/*
 * jobs.h - how jobs begin, go on and end.
 *
 * A job is running from its opening until job_end(). An ended job stays in the table only as long as its
 * images are kept; what is to be known of it is in its record file as well (see record.h).
 */
#ifndef BELAY_NODE_AGENT_LAUNCH_JOBS_H
#define BELAY_NODE_AGENT_LAUNCH_JOBS_H

#include "node-agent/job/job.h"

/*
 * Open a new job; an ended one of that name is forgotten with its images. config is copied. NULL with err
 * (EEXIST: one of that name is running).
 */
struct job *job_open(struct agent *agent, const char *name, const Belay__Wire__JobOpen *config,
                     struct belay_error *err);

/*
 * Make an ended job with a committed line run again. Settings that are 0 stay as they are; another launch
 * line is recorded only by record_take_launch() (record.h). Returns 0 or -1 with err.
 */
int job_reopen(struct job *job, const Belay__Wire__JobOpen *config, struct belay_error *err);

/* A bare job for adoption from a record, not in the table yet. NULL with err. */
struct job *job_new(struct agent *agent, const char *name, const Belay__Wire__JobOpen *config,
                    struct belay_error *err);
/* Put it there. Returns 0 or -1 with err (ENOMEM). */
int job_add(struct job *job, struct belay_error *err);

/* Forget a job and its images, not its record file. Files that it owes stay in its undo folder. */
void job_forget(struct job *job);

/*
 * The job has ended: answer everybody who waits, write its record, and keep its images for the retention
 * time or drop them. The job may be freed.
 */
void job_end(struct job *job, enum job_state state, bool keep_images);

/* A client or arbiter is gone. */
void job_forget_connection(struct job *job, struct connection *connection);

#endif
