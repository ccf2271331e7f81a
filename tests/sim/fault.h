/*
 * fault.h - what goes wrong: crashes of ranks, agents, nodes and the arbiter, comebacks, partitions.
 *
 * Some faults come at a random time, others at a random step of the protocol: after every event that an
 * agent or the coordinator has handled, and between any two actions of a member or of the arbiter. After
 * faults_end_us nothing new goes wrong and all that was lost comes back (nodes with empty memory).
 */
#ifndef BELAY_TESTS_SIM_FAULT_H
#define BELAY_TESTS_SIM_FAULT_H

#include "tests/sim/world.h"

/* Choose this seed's faults. */
void fault_plan(struct world *world);
/* A scheduled fault. */
void fault_strike(struct world *world);
/* An agent, with its node or not, or the arbiter. */
void fault_crash(struct world *world, uint32_t endpoint);
/* A node, an agent or the arbiter returns. */
void fault_come_back(struct world *world, uint32_t endpoint);

#endif
