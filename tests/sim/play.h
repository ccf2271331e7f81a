/*
 * play.h - one seed from its beginning to its end: events in the order of virtual time, each to whom it
 * concerns.
 */
#ifndef BELAY_TESTS_SIM_PLAY_H
#define BELAY_TESTS_SIM_PLAY_H

#include "tests/sim/world.h"

/* Run one seed to its end. Returns true without a violation. counts is added to. */
bool play_seed(struct world *world, uint64_t seed, enum mutation mutation, bool is_tracing,
               struct counts *counts);

void play_add_counts(struct counts *sum, const struct counts *counts);

#endif
