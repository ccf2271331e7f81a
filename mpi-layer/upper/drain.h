/*
 * drain.h - take what is on the wire into upper-half memory: afterwards no message is in transit.
 *
 * Every rank of the job runs it at the same time, once for a line, when all have stopped. Peers tell one
 * another how many messages they have sent since the last line (only those who have: the exchange is the
 * NBX algorithm of Hoefler, Siebert, Lumsdaine, PPoPP 2010, Alg. 2), so that each knows exactly how many
 * to take from whom, and the end is an arrival, not a round.
 */
#ifndef BELAY_MPI_LAYER_UPPER_DRAIN_H
#define BELAY_MPI_LAYER_UPPER_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Drain for a line. False: another rank has gone on to MPI_Finalize, so the line is over; this can happen
 * only when this rank is there, too.
 */
bool drain_run(uint64_t line);

/* Matched but not received messages (probe.c). */
void probe_drain_matched(void);

#endif
