/*
 * records.h - the agent's status files (common/wire/status_file.h), for when no agent runs.
 */
#ifndef BELAY_CMD_RECORDS_H
#define BELAY_CMD_RECORDS_H

#include "common/util/error.h"
#include "common/wire/belay.pb-c.h"

/*
 * Read RUNDIR/jobs/NAME.status. A job that the record calls running is given as "lost": there is no agent
 * that runs it. Free with belay__wire__job_status__free_unpacked(). NULL with err (ENOENT, EBADMSG).
 */
Belay__Wire__JobStatus *record_read(const char *rundir, const char *job, struct belay_error *err);

/* Remove a job's record. Returns 0, or -1 with err (ENOENT). */
int record_remove(const char *rundir, const char *job, struct belay_error *err);

#endif
