/*
 * world.h - communicators and requests for tests: three ranks in MPI_COMM_WORLD, this one is rank 0. What
 * request.c needs of other files is here as well.
 */
#ifndef BELAY_MPI_LAYER_UPPER_TEST_WORLD_H
#define BELAY_MPI_LAYER_UPPER_TEST_WORLD_H

#include "mpi-layer/upper/request.h"

#define WORLD_RANKS 3

/* MPI_COMM_WORLD's record, and that of another communicator with the same ranks in the reverse order. */
extern struct comm world_comm, world_reverse;

/* Test set-up of cmocka: no messages, no requests, no references. */
int world_start(void **state);

/* A new active request, which the library has if `real` is not 0 (below_real()). */
struct request *world_request(enum request_kind kind, struct comm *comm, int real);

/* References that requests hold on handles, numbers that they have given back. */
extern int world_references, world_numbers;

#endif
