/* request_done.h - requests are done: by the library, or when a receiver says so. */
#ifndef BELAY_MPI_LAYER_UPPER_REQUEST_DONE_H
#define BELAY_MPI_LAYER_UPPER_REQUEST_DONE_H

#include <mpi.h>

#include "mpi-layer/upper/request.h"

/*
 * The library has completed it with this status and code: count a received message, keep the result.
 * Afterwards it is_done and real is the null request. But when ranks are stopping, a synchronous send's
 * message may have been taken by a drain: it is held then.
 */
void request_complete(struct request *request, const MPI_Status *status, int error);

/* A held synchronous send has been received, or no drain has its message: it is what the library says of it.
 */
void request_acknowledge(struct request *request);

#endif
