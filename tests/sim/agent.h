/*
 * agent.h - the node agent's side of one recovery line: control pages, capture, protection, commit.
 */
#ifndef BELAY_TESTS_SIM_AGENT_H
#define BELAY_TESTS_SIM_AGENT_H

#include "tests/sim/world.h"

/* An order of the coordinator. */
void agent_take_action(struct world *world, uint32_t node, const struct message *message);
/* A rank has published something. */
void agent_notice(struct world *world, uint32_t node);
/* The moment to capture one rank. */
void agent_capture(struct world *world, uint32_t node, uint32_t rank, uint64_t line);
/* The partner's data have come; the partner holds ours. */
void agent_take_data(struct world *world, uint32_t node, const struct message *message);
void agent_take_data_held(struct world *world, uint32_t node, const struct message *message);
/* Apply a commit that is recorded. Idempotent: also what a returning agent does. */
void agent_apply(struct world *world, uint32_t node, uint64_t line);
/* Apply one rank's staging of a line, if it is there. */
void agent_apply_rank(struct world *world, struct keeper *keeper, uint32_t rank, uint64_t line);

/* Say something to the coordinator of the agent's epoch. */
void agent_say(struct world *world, uint32_t node, enum coord_event_type type);

#endif
