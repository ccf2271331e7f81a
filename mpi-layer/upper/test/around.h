/*
 * around.h - what a part of the upper half meets beside the library, for tests: errors that are raised,
 * orders of a line, acknowledgements. Functions here only note what they are called with.
 */
#ifndef BELAY_MPI_LAYER_UPPER_TEST_AROUND_H
#define BELAY_MPI_LAYER_UPPER_TEST_AROUND_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/upper/half.h"

struct around {
    int raised; /* errors: how many, the newest one's code and communicator */
    int code;
    MPI_Comm comm;
    int waits; /* times that the rank was published as waiting, the newest one's ranks (0: for anybody) */
    uint32_t awaited_count;
    int awaited[CONTROL_MAX_PEERS];
    int notes;          /* of the agent */
    bool (*stop)(void); /* at line_stop_if_ordered(); NULL: no line stops the rank */
    void (*poll)(void); /* at ack_poll(); NULL: no acknowledgement has come */
    int acks;           /* sent, and the newest one's rank and numbers */
    int ack_rank;
    uint64_t ack_request, ack_serial;
};
extern struct around around;

/* In a test's set-up: nothing has happened, no line is in progress. */
void around_start(void);

/* The agent gives this order (enum control_command). */
void around_order(uint32_t command);

#endif
