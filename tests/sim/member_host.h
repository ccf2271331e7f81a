/*
 * member_host.h - the process around a member's machine (coord/member.c): its messages, its timer, its
 * keeper, its ranks. Nothing is decided here.
 */
#ifndef BELAY_TESTS_SIM_MEMBER_HOST_H
#define BELAY_TESTS_SIM_MEMBER_HOST_H

#include "tests/sim/world.h"

/* A message to the agent that is the member's business. */
void member_host_take(struct world *world, uint32_t node, const struct message *message);
/* A rank is staged; it is where the scheme wants it; a line is in all images. */
void member_host_captured(struct world *world, uint32_t node, uint64_t line, uint32_t rank);
void member_host_held(struct world *world, uint32_t node, uint64_t line, uint32_t rank);
void member_host_applied(struct world *world, uint32_t node, uint64_t line);
/* The timer; with `tick_us` that it was set to. */
void member_host_tick(struct world *world, uint32_t node, uint64_t tick_us);
void member_host_notice_broken_link(struct world *world, uint32_t node, uint32_t peer);
void member_host_notice_rank_gone(struct world *world, uint32_t node, uint32_t epoch);

/* The agent's process ends: its ranks run on until the keeper's fence, or until it begins again. */
void member_host_end(struct world *world, uint32_t node);
void member_host_begin(struct world *world, uint32_t node);
/* The keeper's timer: ranks do not outlive the lease, also without an agent. */
void member_host_fence(struct world *world, uint32_t node);
/* All ranks on the node, of whatever epoch. Returns whether there were any. */
bool member_host_kill_ranks(struct world *world, uint32_t node);

/* The memory of a node that begins anew. */
void member_host_forget(struct world *world, uint32_t node);

#endif
