/*
 * attr.h - attributes of communicators. They live in the upper half alone: values are pointers of the
 * application, callbacks are its functions.
 */
#ifndef BELAY_MPI_LAYER_UPPER_ATTR_H
#define BELAY_MPI_LAYER_UPPER_ATTR_H

#include <mpi.h>

/* Read the predefined attributes (MPI_TAG_UB, ...) from the library: at the start and after a restart. */
void attr_bind_predefined(void);

/* MPI_Comm_dup: call the copy functions. Returns the first code that is not MPI_SUCCESS. */
int attr_copy_all(MPI_Comm from, MPI_Comm to);

/* MPI_Comm_free, MPI_Finalize: call the delete functions, newest attribute first. The same. */
int attr_delete_all(MPI_Comm comm);

#endif
