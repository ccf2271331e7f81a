/*
 * program.h - the program whose lines are counted: ranks in a square, each iteration a halo exchange with
 * both neighbours and a collective on the node's, the row's and the column's communicator and on the world.
 *
 * All collectives are as a barrier is. Ranks move in a random order, so that they are at different steps when
 * a line begins. The rule of holding is that of mpi-layer/upper/collective_gate.h, without control pages: a
 * page for each of 100,000 ranks would be a gigabyte.
 */
#ifndef BELAY_TESTS_SIM_SCALE_PROGRAM_H
#define BELAY_TESTS_SIM_SCALE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/rank_report.h"
#include "coord/targets.h"
#include "tests/sim/rng.h"

#define PROGRAM_COMMS 4u /* of each rank */

struct program_rank {
    uint32_t iteration;
    uint8_t step;     /* halo, then one for each communicator */
    bool has_begun;   /* the step: messages sent, or the collective entered */
    bool is_held;     /* at its collective */
    bool is_parked;   /* in the line in progress */
    bool is_runnable; /* on the list */
};

struct program {
    uint32_t ranks, per_node, side; /* of the square; the last row may be short */
    struct program_rank *of;
    uint64_t *entered; /* by communicator: how often members have entered a collective */
    uint32_t comms;
    uint32_t *runnable; /* ranks that may take a step */
    uint32_t runnable_count;
    struct rng rng;
    /* What the ranks of a node are ordered. */
    void (*changed)(void *context, uint32_t rank);
    enum control_command (*command)(void *context, uint32_t rank);
    const struct targets *(*targets)(void *context, uint32_t rank); /* NULL: not known yet */
    void *context;
};

/* Callbacks and their context have been set. Ends the process without memory. */
void program_begin(struct program *program, uint32_t nodes, uint32_t per_node);
void program_end(struct program *program);

/* Let random ranks take so many steps. */
void program_run(struct program *program, uint64_t steps);
/* Each rank that can takes a step, or not, by chance. */
void program_turn(struct program *program);
/* The orders to the rank have changed. */
void program_wake(struct program *program, uint32_t rank);

/* What the rank publishes; clocks has room for PROGRAM_COMMS. */
void program_publish(const struct program *program, uint32_t rank, struct rank_report *report);
/* Ids of a rank's communicators, and the number of their members. */
uint64_t program_comm(const struct program *program, uint32_t rank, uint32_t which);
uint32_t program_size(const struct program *program, uint64_t comm);

#endif
