/* deliver.h - drained messages: finding the one that a receive or probe asks for, handing it over. */
#ifndef BELAY_MPI_LAYER_UPPER_DELIVER_H
#define BELAY_MPI_LAYER_UPPER_DELIVER_H

#include <mpi.h>

#include "mpi-layer/upper/comm.h"

/* The oldest drained message that matches (wildcards allowed), still in its queue; NULL if none. */
struct message *deliver_find(struct comm *comm, int source, int tag);

/* The same, taken out of its queue: the caller owns it. */
struct message *deliver_take(struct comm *comm, int source, int tag);

/*
 * Put a taken message into a receive buffer through the receiver's datatype, fill status, free the
 * message. Returns MPI_SUCCESS or MPI_ERR_TRUNCATE.
 */
int deliver(struct comm *comm, struct message *message, void *buffer, int count, MPI_Datatype type,
            MPI_Status *status);

/* Status of a message that is not taken (probe). */
void deliver_status(const struct message *message, MPI_Status *status);

#endif
