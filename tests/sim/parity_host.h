/*
 * parity_host.h - parity over sets of simulated nodes: what a node's ranks contribute, what it folds for
 * others, images that are made again. Which contribution counts, coord/fold.h says; where a page goes,
 * coord/parity.h, node-agent/redundancy/way.h and code.h.
 *
 * A page of the simulation is a block. A slot is numbered as ranks are.
 */
#ifndef BELAY_TESTS_SIM_PARITY_HOST_H
#define BELAY_TESTS_SIM_PARITY_HOST_H

#include "tests/sim/world.h"

/* The scheme of this seed, and how often contributions come twice. */
void parity_host_plan(struct world *world, struct rng rng);
/* The agent has entered an epoch: its place in a set. */
void parity_host_enter(struct world *world, uint32_t node);

/* What is staged of a rank of the node goes to the holders. */
void parity_host_protect(struct world *world, uint32_t node, uint32_t rank);
/* A message of parity. Returns whether the rank's machine is to hear that the rank is held. */
bool parity_host_take(struct world *world, uint32_t node, const struct message *message);
/* All contributions of a slot have come: the parity is made. */
void parity_host_fold(struct world *world, uint32_t node, uint64_t line, uint32_t slot);

/* What is staged of a line: parity of a slot, and tables of a rank. Idempotent. */
void parity_host_apply(struct world *world, struct keeper *keeper, uint32_t part, uint64_t line);
/* Some pages of it; the agent has died then. */
void parity_host_apply_half(struct world *world, struct keeper *keeper);
/* Of another line than this one nothing is kept. */
void parity_host_drop(const struct world *world, struct keeper *keeper, uint64_t line);

/* Ask for what the image of a rank is made again of: what has not come yet. False: it is not made again. */
bool parity_host_make(struct world *world, uint32_t node, uint32_t rank);
/* A share of it is wanted. */
void parity_host_give(struct world *world, uint32_t node, const struct message *message);
/* A share has come. Returns whether the image is whole now, and in the keeper. */
bool parity_host_add(struct world *world, uint32_t node, const struct message *message);

/* The set that an agent's parity of a slot is of. */
struct parity_layout parity_host_layout(const struct world *world, const struct agent *agent, uint32_t slot);

/* What a node tells the arbiter of it. */
void parity_host_tell(const struct world *world, uint32_t node, struct epoch_state *state,
                      struct sent_state *sent);

#endif
