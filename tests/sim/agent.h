/*
 * agent.h - the work of a node agent in one line: control pages, reports, capture, data for the partner. What
 * may be done, and when a phase is over, its member's machine says (member_host.h).
 */
#ifndef BELAY_TESTS_SIM_AGENT_H
#define BELAY_TESTS_SIM_AGENT_H

#include "tests/sim/world.h"

/* An order of the coordinator that is to be obeyed; message: as it came. */
void agent_obey(struct world *world, uint32_t node, enum coord_action_type order,
                const struct message *message);
/* A rank has published something. */
void agent_notice(struct world *world, uint32_t node, uint32_t rank);
/* The moment to capture one rank. Returns false if it is not to be captured any more. */
bool agent_capture(struct world *world, uint32_t node, uint32_t rank, uint64_t line);
/* Copy what is staged of a rank to the partner, if there is one. */
void agent_send_data(struct world *world, uint32_t node, const struct member_action *action);
/* What can be copied while the ranks run is copied. */
void agent_prepared(struct world *world, uint32_t node, uint64_t line);
/* Apply what is staged of a line, of all ranks, or of one. Idempotent. */
void agent_apply_all(struct world *world, uint32_t node, uint64_t line);
void agent_apply_rank(struct world *world, struct keeper *keeper, uint32_t rank, uint64_t line);

/* Say something of a line to the coordinator of the agent's epoch. */
void agent_say(struct world *world, uint32_t node, enum coord_event_type type, uint64_t line);
/* The line is given up since what a node keeps of it is another image. */
void agent_refute(struct world *world, uint32_t node, uint64_t line);

#endif
