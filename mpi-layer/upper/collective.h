/*
 * collective.h - the gate of the recovery lines before every collective.
 *
 * The rank counts each collective on its communicator and publishes the count before it enters. While a
 * line converges, it holds at the entry of a collective beyond the target if it is below target on none
 * of its communicators (docs/line.md has the rule and why it cannot deadlock).
 */
#ifndef BELAY_MPI_LAYER_UPPER_COLLECTIVE_H
#define BELAY_MPI_LAYER_UPPER_COLLECTIVE_H

#include <mpi.h>

/*
 * Before and after a blocking collective, or the initiation of a non-blocking one. Between them the rank is
 * "inside" and no line is taken, so real handles are valid. An invalid communicator is let through: the
 * library reports it. collective_leave() takes any value.
 */
void collective_enter_as(MPI_Comm comm, const char *function);
void collective_leave(MPI_Comm comm);

#define collective_enter(comm) collective_enter_as(comm, __func__)

#endif
