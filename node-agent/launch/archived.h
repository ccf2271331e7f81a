/*
 * archived.h - a job that is taken from its archive into memory: it is then as one that was lost, and may be
 * opened by its arbiter (jobs.h, job_reopen()).
 */
#ifndef BELAY_NODE_AGENT_LAUNCH_ARCHIVED_H
#define BELAY_NODE_AGENT_LAUNCH_ARCHIVED_H

#include "common/wire/belay.pb-c.h"
#include "node-agent/job/agent.h"
#include "node-agent/loop/connection.h"

/* The client gets its answer when the images are here. Returns 0, or -1 with err: then it has to be told. */
int archived_take(struct agent *agent, struct connection *connection, const Belay__Wire__ArchiveTake *order,
                  struct belay_error *err);

/*
 * Between two launches: write the committed line, of which this node's ranks have their images here. The
 * arbiter hears of the end by an event. Returns 0, or -1 with err.
 */
int archived_write(struct job *job, struct belay_error *err);

/* The arbiter tells which lines are archived. */
void archived_keep(struct job *job, const Belay__Wire__ArchiveKept *kept);

#endif
