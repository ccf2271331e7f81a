/*
 * joined.h - one status of a job, of what its nodes tell.
 *
 * Each node tells of its own ranks, of the epochs that it was a member of, and of the lines of these. A spare
 * knows of no epoch: the state and the number of the epoch are those of the node that knows of the newest
 * one.
 */
#ifndef BELAY_CMD_JOINED_H
#define BELAY_CMD_JOINED_H

#include <stdbool.h>

#include "common/wire/belay.pb-c.h"

bool joined_has_ended(const Belay__Wire__JobStatus *status);

/* Does it know more of the state of the job? One for which the job runs does; else the one with the later
 * epoch. */
bool joined_is_newer(const Belay__Wire__JobStatus *status, const Belay__Wire__JobStatus *than);

/* What another node tells. `from` is still the caller's, without what has been taken out of it. */
void joined_add(Belay__Wire__JobStatus *to, Belay__Wire__JobStatus *from);

/* Of these its nodes only. */
void joined_add_nodes(Belay__Wire__JobStatus *to, Belay__Wire__JobStatus *from);

#endif
