/*
 * link.h - control links between agents and to the arbiter.
 *
 * Between agents: reliable and in order within an epoch, with a random delay, until the link breaks (a
 * crash at one end, a partition). A broken link loses what is on it and stays broken for the epoch; both
 * ends that still live notice after a while. Different links reorder freely. To and from the arbiter:
 * datagrams, which are lost with a partition, and now and then lost or doubled without one.
 */
#ifndef BELAY_TESTS_SIM_LINK_H
#define BELAY_TESTS_SIM_LINK_H

#include "tests/sim/world.h"

/* Send a copy of message. */
void link_send(struct world *world, const struct message *message);
/* True if what arrives now is to be handed over. */
bool link_delivers(const struct world *world, const struct message *message);
bool link_is_cut(const struct world *world, uint32_t a, uint32_t b);
/* Lose what is under way between a and b, and let them notice. */
void link_break(struct world *world, uint32_t a, uint32_t b);
/* For an agent that enters an epoch: it will notice the links that do not work already. */
void link_check(struct world *world, uint32_t node);

#endif
