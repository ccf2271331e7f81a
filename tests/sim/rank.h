/*
 * rank.h - a modelled MPI process: the rank's side of docs/line.md, over a wire with delays.
 */
#ifndef BELAY_TESTS_SIM_RANK_H
#define BELAY_TESTS_SIM_RANK_H

#include "tests/sim/world.h"

/* Go on with rank as far as it can now. */
void rank_step(struct world *world, struct run *run, uint32_t rank);
/* Something that it may wait for has happened. */
void rank_wake(struct world *world, struct run *run, uint32_t rank, uint32_t delay_us);
/* Its agent has changed an order. */
void rank_signal(struct world *world, struct run *run, uint32_t rank);
/* The line lets it go on. */
void rank_resume(struct world *world, struct run *run, uint32_t rank);
/* It may take messages from the library. */
void rank_drain(struct world *world, struct run *run, uint32_t rank);
void rank_kill(struct world *world, struct run *run, uint32_t rank);

void rank_take_data(struct world *world, struct run *run, uint32_t msg);
void rank_take_ack(struct world *world, struct run *run, uint32_t msg);

/* The clock of comm as it is counted: its own, unless a mutation counts per group. */
uint16_t rank_counted(const struct world *world, const uint16_t clock[MAX_COMMS], uint32_t comm);
/* Do these clocks stay below target on at least one of the communicators that exist? */
bool rank_is_below(const struct world *world, uint16_t exists, const uint16_t clock[MAX_COMMS],
                   const uint16_t target[MAX_COMMS]);

#endif
