/*
 * drain.h - takes the messages in transit into upper-half memory: afterwards no message is in transit.
 *
 * Every rank of the job runs it at the same time, once for a line, when all have stopped:
 *
 * 1. Peers tell one another how many messages they have sent since the last line (only those who have: the
 *    exchange is the NBX algorithm of Hoefler, Siebert, Lumsdaine, PPoPP 2010, Alg. 2), so that each knows
 *    exactly how many to take from whom, and the end is an arrival, not a round. It ends with an agreement:
 *    all have been told everything, or the exchange is void for all.
 * 2. Each takes its messages, not before the agreement: taking the message of a synchronous send completes
 *    the send in the library, and only a sender that has been told of the drain knows that the receiver has
 *    not received it yet.
 * 3. All wait for one another.
 *
 * A rank that fails (it has no memory, or the library fails) says so by line_fail(), and goes on without the
 * step that failed: the agent tells all ranks to leave, and they end each step without waiting for sends.
 * Messages that were taken stay taken and are delivered, the others stay in the library, and the program goes
 * on.
 */
#ifndef BELAY_MPI_LAYER_UPPER_DRAIN_H
#define BELAY_MPI_LAYER_UPPER_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/upper/drain_rule.h"

/* Drain for this line, inside a wrapper or a signal handler. Blocks until all ranks have come to the end. */
enum drain_end drain_run(uint64_t line);

/* After a restart: forget what former drains have left in the library of the former process. */
void drain_forget(void);

/* Messages that the application has matched and not received (probe.c): as drained_complete(). */
int probe_drain_matched(bool has_memory, uint64_t *bytes);

#endif
