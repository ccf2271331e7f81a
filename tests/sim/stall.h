/*
 * stall.h - a slow disk under the record of a member: the process of its agent stands still until the record
 * is written. Ranks, keeper and all other nodes go on meanwhile, and what comes to the agent waits for it, in
 * order.
 *
 * What an agent takes runs on a stack of its own if a record may take long in it.
 */
#ifndef BELAY_TESTS_SIM_STALL_H
#define BELAY_TESTS_SIM_STALL_H

#include "tests/sim/world.h"

/* Chances of its own: which seeds have slow disks. */
void stall_plan(struct world *world, struct rng rng);
/* An agent that is up takes an event, by world->take: at once, or when its process goes on. The event's
 * message may be taken over, and is NULL then. */
void stall_take(struct world *world, uint32_t node, struct event *event);
/* Inside the member's machine: have a record written, by `record`. It is on the disk some time before the
 * process goes on, or just then. Returns 0, or -1 with ECANCELED: the process has died meanwhile, and the
 * disk has the record or not. */
int stall_write(struct world *world, uint32_t node, const struct member_record *record,
                void (*write)(struct world *world, uint32_t node, const struct member_record *record));
bool stall_is_standing(const struct world *world, uint32_t node);
/* EVENT_WRITTEN, with its number. */
void stall_go_on(struct world *world, uint32_t node, uint64_t number);
/* The process dies where it stands. */
void stall_cut_short(struct world *world, uint32_t node);
/* The process has ended: what has come to it is lost. */
void stall_end(struct world *world, uint32_t node);
/* The seed is over. */
void stall_finish(struct world *world);

#endif
