/*
 * daemon.h - belayd as a process: one per run directory, listening, until nothing is left to do.
 */
#ifndef BELAY_NODE_AGENT_SERVICE_DAEMON_H
#define BELAY_NODE_AGENT_SERVICE_DAEMON_H

#include "common/util/error.h"

struct daemon;

/*
 * Become the agent of a run directory: take its lock, listen, find or start the keeper, take up what a
 * killed agent left. NULL with err; EBUSY: another agent serves the directory already.
 */
struct daemon *daemon_create(const char *rundir, struct belay_error *err);

/* Serve until no job runs, no images are held and nobody is connected, or SIGTERM or SIGINT comes. */
void daemon_run(struct daemon *daemon);

/* Give everything back and remove the files. Accepts NULL. */
void daemon_destroy(struct daemon *daemon);

#endif
