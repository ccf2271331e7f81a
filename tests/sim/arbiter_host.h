/*
 * arbiter_host.h - the process around the arbiter's machine (coord/arbiter.c): its messages, its timer, its
 * disk. Nothing is decided here.
 */
#ifndef BELAY_TESTS_SIM_ARBITER_HOST_H
#define BELAY_TESTS_SIM_ARBITER_HOST_H

#include "tests/sim/world.h"

/* The arbiter's process, or its successor after a crash, begins. */
void arbiter_host_begin(struct world *world);
void arbiter_host_end(struct world *world);
/* What it has on its disk is gone with the world. */
void arbiter_host_destroy(struct world *world);
void arbiter_host_take(struct world *world, const struct message *message);
/* The timer; with `tick_us` that it was set to. */
void arbiter_host_tick(struct world *world, uint64_t tick_us);
void arbiter_host_notice_broken_link(struct world *world, uint32_t node);

/* What the next epoch lacks that only nodes that come back can bring; else ARBITER_WANT_NOTHING. */
enum arbiter_want arbiter_host_wants(const struct world *world);

#endif
