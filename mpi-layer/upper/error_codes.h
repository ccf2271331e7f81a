/* error_codes.h - error classes, codes and strings that are added to those of the library, also by refusals.
 */
#ifndef BELAY_MPI_LAYER_UPPER_ERROR_CODES_H
#define BELAY_MPI_LAYER_UPPER_ERROR_CODES_H

#include <mpi.h>

/*
 * A function that Belay does not carry: raises an error of class MPI_ERR_UNSUPPORTED_OPERATION whose
 * string names function and reason. comm may be NULL. Returns the code, if the handler returns.
 */
int refuse(const char *function, const char *reason, MPI_Comm comm);

/* After a restart: error classes, codes and strings of the application, with the same numbers. */
void error_codes_restore(void);

#endif
