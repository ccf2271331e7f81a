/*
 * member.h - the node agent as a member of an epoch: the arbiter's inquiry, the lease, restore and launch.
 */
#ifndef BELAY_TESTS_SIM_MEMBER_H
#define BELAY_TESTS_SIM_MEMBER_H

#include "tests/sim/world.h"

/* The arbiter asks before it opens an epoch: from now on nothing older is served. */
void member_take_inquiry(struct world *world, uint32_t node, const struct message *message);
/* The arbiter has opened an epoch. */
void member_take_start(struct world *world, uint32_t node, const struct message *message);
void member_take_grant(struct world *world, uint32_t node, const struct message *message);
/* Another member asks for an image; an image has come. */
void member_take_fetch(struct world *world, uint32_t node, const struct message *message);
void member_take_image(struct world *world, uint32_t node, const struct message *message);
/* The timer. */
void member_tick(struct world *world, uint32_t node);
void member_notice_broken_link(struct world *world, uint32_t node, uint32_t peer);
void member_notice_rank_gone(struct world *world, uint32_t node);

/* The agent's process ends, or begins (and takes up what its keeper holds). */
void member_end(struct world *world, uint32_t node);
void member_begin(struct world *world, uint32_t node);

#endif
