/*
 * interpose.h - functions that the executable defines in place of a library's, for the whole lower half:
 * pthread_create, so that no thread of the MPI library gets the application's signals, and Open MPI's
 * ompi_mpi_abort, which every fatal MPI error goes through.
 */
#ifndef BELAY_MPI_LAYER_LOWER_INTERPOSE_H
#define BELAY_MPI_LAYER_LOWER_INTERPOSE_H

#include <stdint.h>

/*
 * Call `announce(CONTROL_EXIT_ABORT, code)` before a fatal MPI error or MPI_Abort ends the rank: the program
 * ends by its own doing then, and a restart would only repeat it. (With a library that has no such
 * function nothing is announced, and the end counts as a loss.)
 */
void interpose_on_abort(void (*announce)(uint32_t kind, int status));

#endif
