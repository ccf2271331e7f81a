/*
 * reopen.h - the program's files are opened again by what they are, not by what is at their paths.
 *
 * While the program ran, or since it was lost, others may have renamed a file, put another one in its place
 * or turned a folder of its path into a link. A file that was renamed in its folder, as by the rotation of a
 * log, is found there. A file that the agent had to make anew at the restart counts as the former one. If the
 * file is another one, the restart is refused: the program must not write to a file that it has not opened.
 * Two exceptions do no harm. A file that is only read may be another one of the same length and time of
 * change. What is written to a file that was open for writing only, and is gone, goes to a file without a
 * name, as it would have without Belay.
 *
 * Lower FS; before the program runs.
 */
#ifndef BELAY_MPI_LAYER_LOWER_REOPEN_H
#define BELAY_MPI_LAYER_LOWER_REOPEN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"
#include "mpi-layer/lower/gate.h"

/* Before all others: where the agent tells which files it had to make anew (-1: nowhere). 0, or -1 with err.
 */
int reopen_begin(int undo_folder, uint64_t line, struct belay_error *err);

/*
 * Open the file of a record again. `path` is the noted path, or what that means in this process. Lines for
 * the user go to `messages`. Returns a new descriptor, or -1 with err.
 */
int reopen_record(const struct fd_record *record, const char *path, int messages, struct belay_error *err);
/* The flags by which reopen_record() opens the file. */
int reopen_flags(const struct fd_record *record);

/*
 * The list of files that were made anew: lock it, against other ranks, and read what is new on it. Returns
 * what is for reopen_unlock_list(), or -1 with err.
 */
int reopen_lock_list(struct belay_error *err);
void reopen_unlock_list(int list);
/* While it is locked: a file has taken the place of another one. Returns 0, or -1 with errno. */
int reopen_replace(const struct file_id *former, const struct file_id *now);

/* Go to the noted working directory. Returns 0, or -1 with err. */
int reopen_cwd(struct belay_error *err);

/* The file that was at a path when it was noted: an O_PATH descriptor, or -1 with errno (ESTALE: another). */
int reopen_find(const struct file_id *id, const char *path);

/* For wrappers of the upper half: what is at a path (inode 0: nothing) / is it still that file? */
void reopen_identify(const char *path, struct file_id *id);
int reopen_is_same(const char *path, const struct file_id *id);

#endif
