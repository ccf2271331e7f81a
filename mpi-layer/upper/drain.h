/*
 * drain.h - take what is on the wire into upper-half memory: afterwards no message is in transit.
 *
 * Every rank of the job runs it at the same time, once for a line, when all have stopped:
 *
 * 1. Peers tell one another how many messages they have sent since the last line (only those who have: the
 *    exchange is the NBX algorithm of Hoefler, Siebert, Lumsdaine, PPoPP 2010, Alg. 2), so that each knows
 *    exactly how many to take from whom, and the end is an arrival, not a round. It ends with an agreement:
 * all have been told everything, or the exchange counts for nobody.
 * 2. Each takes its messages. Nobody does so before the agreement: the library takes a synchronous send for
 *    complete then, and what that means only somebody knows who has been told.
 * 3. All wait for one another.
 *
 * A rank that cannot go on (it has no memory, the library fails) says so by line_fail(), and does what it can
 * do without: the agent tells all ranks to leave, and they come to the end of each step without waiting for
 * sends. What has been taken stays taken and is delivered, the rest stays in the library, and the program
 * goes on.
 */
#ifndef BELAY_MPI_LAYER_UPPER_DRAIN_H
#define BELAY_MPI_LAYER_UPPER_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/upper/drain_rule.h"

enum drain_end drain_run(uint64_t line);

/* After a restart: what former drains have left in the library that was. */
void drain_forget(void);

/* Messages that the application has matched and not received (probe.c): as drained_complete(). */
int probe_drain_matched(bool has_memory, uint64_t *bytes);

#endif
