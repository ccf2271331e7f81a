/*
 * branch_host.h - a node's place in the tree: the real branch.c between its parent and those below it, and
 * the way of words upwards.
 */
#ifndef BELAY_TESTS_SIM_BRANCH_HOST_H
#define BELAY_TESTS_SIM_BRANCH_HOST_H

#include "tests/sim/world.h"

/* The agent has entered its epoch; if it has children, and the tree is no star, it has a branch. */
void branch_host_begin(struct world *world, uint32_t node);
void branch_host_end(struct world *world, uint32_t node);

/* Words of this node's member: to its own branch, to the parent's, or to the coordinator. */
void branch_host_say(struct world *world, uint32_t node, const struct coord_event *word);
void branch_host_say_ready(struct world *world, uint32_t node);

/* The parent's order. Mutations that break the rules of branches are applied in these. */
void branch_host_order(struct world *world, uint32_t node, const struct message *message);
/* A word of the member on `from`, or of its branch. */
void branch_host_word(struct world *world, const struct message *message, const struct coord_event *word);
void branch_host_ready(struct world *world, uint32_t node, uint32_t from);

#endif
