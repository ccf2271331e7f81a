/*
 * refill_host.h - copies, tables and parity that a loss has left lacking, made again while the ranks run:
 * what is around node-agent/member/refill_*.c, which decide. Memory files, threads and the way of blocks are
 * models.
 */
#ifndef BELAY_TESTS_SIM_REFILL_HOST_H
#define BELAY_TESTS_SIM_REFILL_HOST_H

#include "tests/sim/world.h"

/* The agent has entered an epoch, or is in none any more. */
void refill_host_begin(struct world *world, uint32_t node);
void refill_host_end(struct world *world, uint32_t node);
/* No line is in progress; one begins. */
void refill_host_go_on(struct world *world, uint32_t node);
void refill_host_rest(struct world *world, uint32_t node);
void refill_host_hear(struct world *world, uint32_t node, const struct message *message);
/* EVENT_REFILL */
void refill_host_do(struct world *world, uint32_t node, uint64_t number);

#endif
