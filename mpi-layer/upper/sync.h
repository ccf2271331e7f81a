/*
 * sync.h - pending synchronous sends: how many messages with the same communicator, peer and tag have been
 * sent after each of them. A drain tells these numbers to the receiver, which finds out by them whether the
 * message is among the drained ones.
 *
 * Messages with equal keys are counted together, from the first pending synchronous send on: what a later
 * send costs does not depend on how many are pending.
 */
#ifndef BELAY_MPI_LAYER_UPPER_SYNC_H
#define BELAY_MPI_LAYER_UPPER_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/upper/request.h"

/* Make sure that the next sync_begin() succeeds. False: out of memory. */
bool sync_reserve(void);

/* A synchronous send has been initiated / is done, or nobody will be told of it any more. */
void sync_begin(struct request *request);
void sync_end(struct request *request);

/* A message has been sent to a peer that synchronous sends are pending to. */
void sync_count(const struct comm *comm, int peer, int tag);

/* How many have come after a pending one. */
uint64_t sync_later(const struct request *request);

#endif
