/*
 * attr.h - attributes of communicators and datatypes. They live in the upper half alone: values are pointers
 * of the application, callbacks are its functions. They run outside any wrapper.
 */
#ifndef BELAY_MPI_LAYER_UPPER_ATTR_H
#define BELAY_MPI_LAYER_UPPER_ATTR_H

#include <mpi.h>

/* Read the predefined attributes (MPI_TAG_UB, ...) from the library: at the start and after a restart. */
void attr_bind_predefined(void);

/* MPI_Comm_dup, MPI_Type_dup: call the copy functions. Handles of ours; the first code that is no success. */
int attr_copy_all(void *from, void *to);

/* MPI_Comm_free and its like: call the delete functions, newest attribute first. The same. */
int attr_delete_all(void *handle);

#endif
