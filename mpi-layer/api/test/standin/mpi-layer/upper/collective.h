/*
 * collective.h - a stand-in for tests.
 */
#ifndef BELAY_API_TEST_COLLECTIVE_H
#define BELAY_API_TEST_COLLECTIVE_H

#include <mpi.h>

void collective_enter(MPI_Comm comm);
void collective_leave(MPI_Comm comm);

#endif
