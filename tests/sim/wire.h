/*
 * wire.h - what arbiter and members tell one another, as its receiver gets it: packed, unpacked and checked
 * by coord/epoch_message.h. What is told and not accepted is a violation.
 */
#ifndef BELAY_TESTS_SIM_WIRE_H
#define BELAY_TESTS_SIM_WIRE_H

#include "tests/sim/world.h"

/* Returns false if it is not accepted. The arrays of *received are its own. */
bool wire_send_start(const struct world *world, uint32_t node, const struct epoch_start *start,
                     struct sent_start *received);
void wire_keep_start(const struct epoch_start *start, struct sent_start *kept);
/* The decision that is kept there, borrowed. */
struct epoch_start wire_start_of(struct sent_start *kept);
struct epoch_state wire_state_of(const struct sent_state *sent);
bool wire_send_state(const struct epoch_state *state, struct sent_state *received);

#endif
