/*
 * proof.h - the roots of images, and one node that errs or lies about what it holds.
 *
 * A seed has at most one such node. It changes an image, or the copy that it is given, or what it sends to a
 * node that fetches, always together with the sums: only the root tells that it is another image.
 */
#ifndef BELAY_TESTS_SIM_PROOF_H
#define BELAY_TESTS_SIM_PROOF_H

#include "tests/sim/world.h"

/* Which node, and what it does; by chances of its own. */
void proof_plan(struct world *world, struct rng rng);

struct digest proof_root(uint32_t rank, const struct image *image);
/* The root of what a staging makes of the image that is beside it. */
void proof_stage(const struct keeper *keeper, uint32_t rank, struct staging *staging);
/* The image that a node has of a line, with what it has to apply; false: it has none. */
bool proof_make_image(const struct keeper *keeper, uint32_t rank, uint64_t line, struct image *image);

/* What may go wrong on the node, if it is the one. */
void proof_change_memory(struct world *world, uint32_t node);
void proof_change_copy(struct world *world, uint32_t node, struct staging *copy);
void proof_change_sent(struct world *world, uint32_t node, uint32_t rank, struct image *image);

/* What a voice says with PROTECTED; what is said of all of them; of the node's own ranks. */
void proof_take_sum(struct host_measure *proofs, uint32_t voice, const struct message *message);
void proof_fill_sum(const struct host_measure *proofs, struct message *message);
void proof_fill_own(const struct world *world, uint32_t node, struct message *message);
/* What the node tells the arbiter of roots; *sent has the arrays. */
void proof_tell(const struct world *world, uint32_t node, struct epoch_state *state, struct sent_state *sent);
/* Whether the partner's word is of the image that is here. */
bool proof_is_copied(const struct world *world, uint32_t node, const struct message *message);
/* Two for each rank, as an agent tells them to its member's machine. */
void proof_list_roots(const struct world *world, uint32_t node, struct digest roots[2 * MAX_RANKS]);
/* Images that are not those with which the epoch was opened count as not held from now on. */
void proof_leave_out(struct world *world, uint32_t node);
/* Whether an image that was fetched is the one that the epoch goes on from; if not, the arbiter will hear. */
bool proof_accepts(struct world *world, uint32_t node, const struct message *message);

#endif
