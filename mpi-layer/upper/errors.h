/* errors.h - raising MPI errors from our own code. */
#ifndef BELAY_MPI_LAYER_UPPER_ERRORS_H
#define BELAY_MPI_LAYER_UPPER_ERRORS_H

#include <mpi.h>

/*
 * Call the error handler of comm (MPI_COMM_WORLD's if it is null) with an error code of the library.
 * Returns the code, if the handler returns.
 */
int errors_raise(MPI_Comm comm, int code);

#endif
