/*
 * flight.h - requests that the library has to do with while a drain is going on.
 *
 * Sends and collectives must all end, so they are tested in their order. A receive may be for a message after
 * the line: receives are tested together, and only while messages are missing.
 */
#ifndef BELAY_MPI_LAYER_UPPER_FLIGHT_H
#define BELAY_MPI_LAYER_UPPER_FLIGHT_H

#include <stdbool.h>

#include "mpi-layer/upper/request.h"

struct flight {
    struct request **others, **receives; /* active ones that the library has */
    uint32_t other_count, receive_count;
    uint32_t first; /* of the others that is not complete */
    void **real;    /* of the receives */
    int *indices;
    MPI_Status *statuses;
};

/* Returns 0, or -1: out of memory, and it is empty. To be given to flight_end() in any case. */
int flight_begin(struct flight *flight);
void flight_end(struct flight *flight);

/* Complete what is complete. The first returns true if a request that must end has not. */
bool flight_test_others(struct flight *flight);
void flight_test_receives(struct flight *flight);

/*
 * Until flight_end() errors on this communicator come back to us, not to the application's error handler: it
 * is called when the application asks for the request. flight_begin() does it for communicators with
 * requests.
 */
void flight_quiet(struct comm *comm);

#endif
