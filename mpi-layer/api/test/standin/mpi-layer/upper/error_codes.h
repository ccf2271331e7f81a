/*
 * error_codes.h - a stand-in for tests.
 */
#ifndef BELAY_API_TEST_ERROR_CODES_H
#define BELAY_API_TEST_ERROR_CODES_H

#include <mpi.h>

int refuse(const char *function, const char *reason, MPI_Comm comm);

#endif
