/* errors.h - raising MPI errors from our own code. */
#ifndef BELAY_MPI_LAYER_UPPER_ERRORS_H
#define BELAY_MPI_LAYER_UPPER_ERRORS_H

#include <mpi.h>

/*
 * Call the error handler of comm (MPI_COMM_WORLD's if it is null) with an error code of the library.
 * Returns the code, if the handler returns.
 */
int errors_raise(MPI_Comm comm, int code);

/*
 * A function that Belay does not carry: raises an error of class MPI_ERR_UNSUPPORTED_OPERATION whose
 * string names function and reason. comm may be NULL. Returns the code, if the handler returns.
 */
int refuse(const char *function, const char *reason, MPI_Comm comm);

/* After a restart: error classes, codes and strings of the application, with the same numbers. */
void errors_restore(void);

#endif
