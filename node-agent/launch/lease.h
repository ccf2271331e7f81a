/*
 * lease.h - the lease of a job on this node: asked for, given, and told to all who have to stop at its end:
 * the ranks by their control pages, the keeper and threads of the agent by a page of their own
 * (common/wire/fence.h).
 *
 * How long it is and when it ends, the member's machine decides (job/membership.h). A job without leases has
 * a struct lease, too, that does nothing.
 */
#ifndef BELAY_NODE_AGENT_LAUNCH_LEASE_H
#define BELAY_NODE_AGENT_LAUNCH_LEASE_H

#include <stdint.h>

#include "common/util/error.h"
#include "common/wire/fence.h"
#include "node-agent/job/job.h"

struct lease;

/* NULL with err. */
struct lease *lease_create(struct job *job, struct belay_error *err);
/* The keeper forgets it. Accepts NULL. */
void lease_destroy(struct lease *lease);

/* The arbiter takes requests for leases over this connection from now on; NULL: over none. */
void lease_use(struct lease *lease, struct connection *connection);
/* Is it that connection? */
bool lease_is_of(const struct lease *lease, const struct connection *connection);
/* That connection is closed. */
void lease_forget_connection(struct lease *lease, const struct connection *connection);

/*
 * An epoch is about to be promised, with leases of this length, 0: none is needed. The keeper knows the page
 * before a lease is given. Returns 0 or -1 with err.
 */
int lease_begin(struct lease *lease, uint64_t lease_ms, struct belay_error *err);
/* The epoch has been entered: a lease is asked for. */
void lease_ask(struct lease *lease);
/* The arbiter has given the lease that was asked for then, at given_ns by its clock; 0: it did not say. */
void lease_take(struct lease *lease, uint32_t epoch, uint64_t asked_us, uint64_t given_ns);

/*
 * Call `done` once the ranks of the epoch that was entered may be launched: now, or when a lease is given. It
 * is forgotten when another epoch is promised.
 */
typedef void lease_done_f(struct job *job, void *context);
void lease_await(struct lease *lease, lease_done_f *done, void *context);

/* Another mapping of it, of FENCE_BYTES, which the caller unmaps; NULL with errno. */
struct fence *lease_map_fence(const struct lease *lease);

#endif
