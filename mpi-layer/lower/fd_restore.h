/* fd_restore.h - the application's descriptors are made again at their numbers (fd_note.h). */
#ifndef BELAY_MPI_LAYER_LOWER_FD_RESTORE_H
#define BELAY_MPI_LAYER_LOWER_FD_RESTORE_H

#include "common/util/error.h"

/*
 * At a line of the first launch: the numbers of the MPI library's descriptors, which the application does not
 * get. After a restart they stay taken, wherever the new library has its own.
 */
void fd_note_library(void);

/*
 * Before MPI_Init: go to the working directory, open them, and take all numbers that the library is not to
 * have. What cannot be made again is named on standard error, and closed with its number taken. Returns 0, or
 * -1 with err: a file is gone or may not be opened any more.
 */
int fd_restore_all(int parcel, struct belay_error *err);

/* The threads are there: what the program had open of them (/proc/self/task/TID). */
void fd_restore_late(void);

/* After MPI_Init: the numbers that were taken for the library's sake are free again. */
void fd_restore_end(void);

#endif
