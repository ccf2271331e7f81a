/*
 * datatype.h - a stand-in for tests.
 */
#ifndef BELAY_API_TEST_DATATYPE_H
#define BELAY_API_TEST_DATATYPE_H

#include <mpi.h>

MPI_Datatype datatype_record(void *real, int combiner, int n_ints, const int *ints, int n_aints,
                             const MPI_Aint *aints, int n_types, const MPI_Datatype *types);
MPI_Datatype datatype_record_unnamed(void *real, int combiner, int n_ints, const int *ints);

#endif
