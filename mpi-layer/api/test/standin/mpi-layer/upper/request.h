/*
 * request.h - a stand-in for tests.
 */
#ifndef BELAY_API_TEST_REQUEST_H
#define BELAY_API_TEST_REQUEST_H

#include <mpi.h>

MPI_Request request_new_collective(void *real, MPI_Comm comm);
MPI_Request request_new_collective_owning(void *real, MPI_Comm comm, void *to_free);
void request_keep(MPI_Request request, MPI_Datatype type, MPI_Op op);

#endif
