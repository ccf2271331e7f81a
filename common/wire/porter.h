/*
 * porter.h - how a rank has its arbiter and its relay started outside of its job.
 *
 * Slurm ends all processes of a step with the step, and counts their memory as the step's. What holds images
 * has to outlive the step. So Slurm's plugin starts a porter for the user on each node
 * (slurm-plugin/porter.c), outside of the job's control groups, and the ranks ask it. What it starts, and
 * agents that these start, are outside as well. The messages are in belay.proto.
 */
#ifndef BELAY_COMMON_WIRE_PORTER_H
#define BELAY_COMMON_WIRE_PORTER_H

#include "common/util/error.h"
#include "common/wire/belay.pb-c.h"

#define PORTER_SOCKET "porter.sock" /* in the run directory */
#define PORTER_FDS_MAX 4u
#define PORTER_VERSION 1u /* changes with the protocol */

/*
 * Connect to the user's porter. Returns a close-on-exec descriptor (the caller closes it), or -1 with err:
 * ENOENT or ECONNREFUSED if there is none.
 */
int porter_connect(const char *rundir, struct belay_error *err);

/* Ask it (this sets the version), and wait for the answer. Returns the program's exit status, or -1 with err.
 */
int porter_ask(int sock, Belay__Wire__PorterRequest *request, const int *fds, unsigned fd_count,
               struct belay_error *err);

#endif
