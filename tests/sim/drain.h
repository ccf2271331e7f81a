/*
 * drain.h - a rank's drain, by the rules of mpi-layer/upper (peer.h, drain_rule.h), over a modelled library:
 * one that carries messages and counts, reduces, and has a barrier.
 *
 * Ranks come to the end of a drain together or not at all: one that waits for a rank that is dead stands
 * there until it is killed, whatever its agent orders.
 */
#ifndef BELAY_TESTS_SIM_DRAIN_H
#define BELAY_TESTS_SIM_DRAIN_H

#include "tests/sim/world.h"

/* The rank has the order to stop. */
void drain_begin(struct world *world, struct run *run, uint32_t rank);
/* One look at everything. True: the drain is over, whatever came of it. */
bool drain_step(struct world *world, struct run *run, uint32_t rank);

/* A count has come to `rank`: `peer` has sent it so many messages, or acknowledgements. */
void drain_take_count(struct world *world, struct run *run, uint32_t rank, uint32_t peer,
                      enum counted counted, uint64_t count);

#endif
