/*
 * status_file.h - the final status of a job, which the agent leaves for tools: RUNDIR/jobs/NAME.status holds
 * one JobStatus. The files are their own user's, but what is in them is checked.
 */
#ifndef BELAY_COMMON_WIRE_STATUS_FILE_H
#define BELAY_COMMON_WIRE_STATUS_FILE_H

#include <stddef.h>

#include "common/util/error.h"
#include "common/wire/belay.pb-c.h"

/* Its path. Returns 0, or -1 (ENAMETOOLONG). */
int status_file_path(char *path, size_t path_bytes, const char *rundir, const char *job);

/*
 * Read one. NULL with errno: ENOENT, EBADMSG (damaged, or of another job), ENOMEM and what open(2) says. Free
 * it with belay__wire__job_status__free_unpacked().
 */
Belay__Wire__JobStatus *status_file_read(const char *rundir, const char *job);

/* Write one: a reader sees all of it or what was there before. Returns 0, or -1 with errno. */
int status_file_write(const char *rundir, const Belay__Wire__JobStatus *status);

/* Remove one, and the folder after the last one. Returns 0, or -1 with errno (ENOENT). */
int status_file_remove(const char *rundir, const char *job);

/* Call visit() with the name of each job that has one, until that is -1. Returns that, or 0. */
int status_file_each(const char *rundir, int (*visit)(void *context, const char *job), void *context);

#endif
