/*
 * locks.h - the locks that the program has on files (flock, fcntl): noted at a line, taken again at a
 * restart.
 */
#ifndef BELAY_MPI_LAYER_LOWER_LOCKS_H
#define BELAY_MPI_LAYER_LOWER_LOCKS_H

#include <stdbool.h>

#include "common/util/error.h"
#include "mpi-layer/lower/gate.h"

/* Park: do a descriptor's details (fdinfo of proc(5)) tell of any? */
bool locks_are_in(const char *details);

/*
 * Take again what a descriptor's details tell. Waits for others to let go for some seconds. Returns 0 or -1
 * with err. When a process closes any descriptor of a file, it loses its locks of fcntl(2) on it: no file
 * that the program has may be closed any more.
 */
int locks_restore(const struct fd_record *record, const char *details, struct belay_error *err);

#endif
