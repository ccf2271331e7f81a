/* deliver.h - handing drained messages (drained.h) over to the application. */
#ifndef BELAY_MPI_LAYER_UPPER_DELIVER_H
#define BELAY_MPI_LAYER_UPPER_DELIVER_H

#include <mpi.h>
#include <stdbool.h>

#include "mpi-layer/upper/drained.h"

/*
 * Put a message into a receive buffer through the receiver's datatype, and fill status. Returns the class of
 * the MPI code. *is_gone: the receive has taken the message, if with an error (MPI_ERR_TRUNCATE); else the
 * library would not begin it, and the message is as it was.
 */
int deliver(const struct message *message, void *buffer, int count, MPI_Datatype type, MPI_Status *status,
            bool *is_gone);

/* It is gone: its sender is told if it waits for that, and the memory is given back. In no queue any more. */
void deliver_end(struct message *message);

/* Status of a message that is not taken (probe). */
void deliver_status(const struct message *message, MPI_Status *status);

#endif
