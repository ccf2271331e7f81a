/*
 * folder.h - the folders of archived lines: BASE/JOB/line-N.
 *
 * Whatever is in a folder was put there by somebody; all of these functions refuse folders and files that do
 * not belong to this user, or that others may write to, and follow no symbolic link below BASE.
 */
#ifndef BELAY_COMMON_ARCHIVE_FOLDER_H
#define BELAY_COMMON_ARCHIVE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"

#define ARCHIVE_MANIFEST "manifest" /* the last file of a line (manifest.h) */
#define ARCHIVE_LOCK "lock"         /* in the folder of the job: locked by its arbiter */
#define ARCHIVE_NAME_BYTES 32       /* of a file in the folder of a line */

/* A descriptor of BASE/JOB; makes: it is made if it is not there. BASE has no symbolic link in it. -1 with
 * err.
 */
int archive_open_job(const char *base, const char *job, bool makes, struct belay_error *err);
/* The same of the folder of a line in it. */
int archive_open_line(int job_folder, uint64_t line, bool makes, struct belay_error *err);
/* A descriptor of this folder, at an absolute path without symbolic links. -1 with err. */
int archive_open_path(const char *path, struct belay_error *err);

/* The lines that have a folder, ascending, to be freed; NULL with *count 0: none, or with ENOMEM. */
uint64_t *archive_list_lines(int job_folder, size_t *count);
/* Whether the folder of the line is whole: it has its last file. */
bool archive_is_complete(int job_folder, uint64_t line);
/* Remove the folder of a line, its last file first. */
void archive_remove_line(int job_folder, uint64_t line);
/* Remove all of BASE/JOB: lines that are not ours stay, and so does their folder then. */
void archive_remove_job(const char *base, const char *job);
/* "line-7"; the number of such a name, 0: it is none. */
void archive_line_name(uint64_t line, char name[ARCHIVE_NAME_BYTES]);
uint64_t archive_line_of(const char *name);

/* A file of the folder to read, of at most so many bytes; its size is in *bytes. -1 with err. */
int archive_open_file(int folder, const char *name, uint64_t most_bytes, uint64_t *bytes,
                      struct belay_error *err);
/* A new file that gets its name by archive_end_file(). -1 with err. */
int archive_begin_file(int folder, const char *name, struct belay_error *err);
/* It is whole: durable under its name when 0 is returned. Closes fd. -1 with err: nothing is left of it. */
int archive_end_file(int folder, const char *name, int fd, struct belay_error *err);
/* Give it up. Closes fd, keeps errno. */
void archive_drop_file(int folder, const char *name, int fd);

#endif
