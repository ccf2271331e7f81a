/*
 * arbiter.h - the process that launched the job: it alone opens epochs, and it grants leases.
 */
#ifndef BELAY_TESTS_SIM_ARBITER_H
#define BELAY_TESTS_SIM_ARBITER_H

#include "tests/sim/world.h"

/* The arbiter (or its successor after a crash) begins: it opens a new epoch. */
void arbiter_begin(struct world *world);
void arbiter_end(struct world *world);
void arbiter_tick(struct world *world);
void arbiter_take_state(struct world *world, const struct message *message);
void arbiter_take_renewal(struct world *world, const struct message *message);
void arbiter_take_trouble(struct world *world, const struct message *message);
void arbiter_notice_broken_link(struct world *world, uint32_t node);

#endif
