/*
 * own_arbiter.h - the agent as the arbiter of a job whose ranks came without one (LD_PRELOAD, no `belay
 * run`): it opens the job's only epoch, as `belay run` does (coord/opener.h), and writes the record down for
 * the `belay restart` that may come.
 */
#ifndef BELAY_NODE_AGENT_LAUNCH_OWN_ARBITER_H
#define BELAY_NODE_AGENT_LAUNCH_OWN_ARBITER_H

#include <stdint.h>

#include "common/util/error.h"
#include "coord/epoch.h"
#include "coord/opener.h"
#include "node-agent/job/job.h"

/* What the arbiter asks of this node; each returns 0 or -1 with err (epoch.h). */
struct own_arbiter_ops {
    int (*promise)(struct job *job, uint32_t epoch, struct epoch_state *state, struct belay_error *err);
    int (*enter)(struct job *job, const struct epoch_start *start, struct belay_error *err);
};

/* The ops are borrowed. NULL with err. */
struct own_arbiter *own_arbiter_create(struct job *job, const struct own_arbiter_ops *node,
                                       struct belay_error *err);
/* Accepts NULL. */
void own_arbiter_destroy(struct own_arbiter *arbiter);

/* Open the epoch: this node has entered it then. Returns 0 or -1 with err. */
int own_arbiter_open(struct own_arbiter *arbiter, struct belay_error *err);
/* All its ranks have come up, here. Returns 0 or -1 with err. */
int own_arbiter_place(struct own_arbiter *arbiter, uint32_t ranks, struct belay_error *err);

#endif
