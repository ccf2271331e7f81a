/*
 * leases.h - leases of the nodes of a job: a thread hears the agents ask for them, and the arbiter grants
 * them.
 *
 * Each agent has a connection for leases alone, so that no call and no message of another kind delays them.
 * The thread does nothing else: this process may wait for an agent, a disk or a reader of its output
 * meanwhile.
 */
#ifndef BELAY_CMD_LEASES_H
#define BELAY_CMD_LEASES_H

#include <stdint.h>

#include "cmd/arbiter.h"
#include "common/util/error.h"

struct leases;

/* The arbiter outlives them. NULL with err. */
struct leases *leases_create(struct job_arbiter *arbiter, struct belay_error *err);
/* Connections are closed. Accepts NULL. */
void leases_destroy(struct leases *leases);

/*
 * A node's agent, which is found in this run directory, has opened the job: leases are asked for over another
 * connection to it from now on. Returns 0 or -1 with err.
 */
int leases_open(struct leases *leases, uint32_t node, const char *rundir, const char *job,
                struct belay_error *err);
/* The node is left: it is given no lease any more. Accepts NULL. */
void leases_close(struct leases *leases, uint32_t node);

#endif
