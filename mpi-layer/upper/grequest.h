/*
 * grequest.h - generalized requests: the application completes them itself. They live in the upper half
 * alone, and so do the three functions, which are called as any function of the application calls another.
 */
#ifndef BELAY_MPI_LAYER_UPPER_GREQUEST_H
#define BELAY_MPI_LAYER_UPPER_GREQUEST_H

#include "mpi-layer/upper/request.h"

/* Ask the query function of a completed one for its status; its code becomes the request's error. */
void grequest_query(struct request *request);

/* Call the free function, once. Returns its code. */
int grequest_free(struct request *request);

/* Call the cancel function. Returns its code. */
int grequest_cancel(struct request *request);

#endif
