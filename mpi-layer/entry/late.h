/*
 * late.h - programs that load MPI while they run (dlopen), as Python does for mpi4py. Whether they will
 * cannot be seen in the program; but memory can only be kept apart from its very start.
 */
#ifndef BELAY_MPI_LAYER_ENTRY_LATE_H
#define BELAY_MPI_LAYER_ENTRY_LATE_H

#include <stdbool.h>

/*
 * Is this process, not linked with MPI, to be a rank all the same? program is the executable's path. Yes
 * for an interpreter of Python (or what BELAY_LATE_MPI names, separated by colons; empty: nothing) that a
 * launcher of MPI has started as a rank, either itself or with arguments or a script that speak of mpi4py.
 */
bool late_is_rank(const char *program, int argc, char *const argv[]);

#endif
