/*
 * epolls.h - epoll descriptors: what each of them watches.
 *
 * The kernel knows a watch by a number and by the open file that had this number when the watch was made. A
 * watch outlives the close of its number as long as another descriptor keeps the file open, and the number
 * may stand for another file by then, which may be watched, too.
 */
#ifndef BELAY_MPI_LAYER_LOWER_EPOLLS_H
#define BELAY_MPI_LAYER_LOWER_EPOLLS_H

#include <stdbool.h>

#include "mpi-layer/lower/gate.h"

/* When all descriptors have their records (fd_notes.h): note what this one watches. */
void epolls_note(struct fd_record *record);

/* Make the descriptor again at its number, watching nothing. */
bool epolls_restore(const struct fd_record *record);

/* All descriptors are made again, and no file is locked yet: watch what was watched. Says what cannot be. */
void epolls_watch(const struct fd_record *record);

#endif
