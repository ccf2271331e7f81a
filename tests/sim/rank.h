/*
 * rank.h - a modelled MPI process: the rank's side of docs/line.md, over a wire with delays.
 */
#ifndef BELAY_TESTS_SIM_RANK_H
#define BELAY_TESTS_SIM_RANK_H

#include "tests/sim/world.h"

/* Go on with rank as far as it can now. */
void rank_step(struct world *world, struct run *run, uint32_t rank);
/* The line lets it go on. */
void rank_resume(struct world *world, struct run *run, uint32_t rank);

void rank_take_data(struct world *world, struct run *run, uint32_t msg);
/* is_counted: it is an acknowledgement of the receiver; else the library takes the send for complete. */
void rank_take_ack(struct world *world, struct run *run, uint32_t msg, bool is_counted);

#endif
