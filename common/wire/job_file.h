/*
 * job_file.h - one small file for each job in the run directory: RUNDIR/jobs/NAME and an ending that says
 * what the file is. The folder is there as long as a file is in it. Mode 0600; the files are their own
 * user's, but what is in them is for the caller to check.
 */
#ifndef BELAY_COMMON_WIRE_JOB_FILE_H
#define BELAY_COMMON_WIRE_JOB_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a job's file is; `ending` is that of its name. */
struct job_file {
    const char *ending;
    bool is_durable; /* written down before job_file_write() returns, and before the former one goes */
};

/* Its path. Returns 0, or -1 (ENAMETOOLONG). */
int job_file_path(const struct job_file *file, char *path, size_t path_bytes, const char *rundir,
                  const char *job);

/* The whole file, to be freed. NULL with errno: ENOENT, EBADMSG (no file, or too long), what open(2) says. */
uint8_t *job_file_read(const struct job_file *file, const char *rundir, const char *job, size_t *count);

/* A reader sees all of it or what was there before. Returns 0, or -1 with errno; then the former one stays.
 */
int job_file_write(const struct job_file *file, const char *rundir, const char *job, const uint8_t *bytes,
                   size_t count);

/* Remove it, what an interrupted write left, and the folder after the last file. 0, or -1 with errno
 * (ENOENT). */
int job_file_remove(const struct job_file *file, const char *rundir, const char *job);

/* Call visit() with the name of each job that has one, until that is -1. Returns that, or 0. */
int job_file_each(const struct job_file *file, const char *rundir,
                  int (*visit)(void *context, const char *job), void *context);

#endif
