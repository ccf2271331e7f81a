/* op.h - operations of the application. */
#ifndef BELAY_MPI_LAYER_UPPER_OP_H
#define BELAY_MPI_LAYER_UPPER_OP_H

#include "mpi-layer/upper/handle.h"

/* Its last user is gone: free the real operation and its code. */
void op_forget(struct handle *op);

/* Make the real operation again, after a restart. */
void op_restore(struct handle *op);

/* The function wants a fifth argument (C++ bindings). */
void op_bind(struct handle *op, const void *argument);

#endif
