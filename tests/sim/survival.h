/*
 * survival.h - which losses a committed line has to survive, and whether enough of it is left: images,
 * copies, parity and tables, in all nodes' memory. Part of the invariants (check.h).
 */
#ifndef BELAY_TESTS_SIM_SURVIVAL_H
#define BELAY_TESTS_SIM_SURVIVAL_H

#include "tests/sim/world.h"

/* What was captured at a line; NULL: nobody has captured it, or that was long ago. */
struct snapshot *survival_snapshot(struct world *world, uint64_t line);
/* Are these two states of a rank the same, with their pages? */
bool survival_is_same(const struct upper *a, const uint64_t *a_pages, const struct upper *b,
                      const uint64_t *b_pages);

/* Has the node still the memory that it had then? */
bool survival_is_alive(const struct world *world, uint32_t node, uint64_t incarnation);
/* Has at most what the scheme survives been lost of the rank's redundancy set? */
bool survival_is_due(const struct world *world, const struct snapshot *snapshot, uint32_t rank);
/* Does some node's memory hold the rank at this line, as it was captured, or can that be made again? */
bool survival_is_held(struct world *world, uint64_t line, uint32_t rank);
/* The same of one node's memory. */
bool survival_has_image(struct world *world, uint32_t node, uint64_t line, uint32_t rank);

/* An agent drops the parity that was there before it made its own of a line anew: checks that the latter is
 * there. */
void survival_replace(struct world *world, const struct agent *agent, uint64_t line);
/* All members of an agent's epoch have told that they hold what they have to of a line: checks it. */
void survival_refill(struct world *world, const struct agent *agent, uint64_t line);

#endif
