/*
 * fetch.h - images that this node's ranks go on from, and that are on other members: fetched before the
 * launch of an epoch. It also lends to members that fetch from this one (lend.h).
 *
 * What comes is put together, compared with its sums, and kept when all of it is there. Which images are
 * wanted the member's machine says (job/membership.h). All functions are called from the agent's loop.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_FETCH_H
#define BELAY_NODE_AGENT_MEMBER_FETCH_H

#include "common/util/error.h"
#include "coord/epoch.h"
#include "node-agent/job/job.h"
#include "node-agent/link/remote.h"

struct fetch;
struct loads;

/*
 * For an epoch of several members that is about to be entered, over its links: from now on this node lends.
 * start is copied. NULL with err (ENOMEM).
 */
struct fetch *fetch_create(struct job *job, struct remotes *remotes, const struct epoch_start *start,
                           struct belay_error *err);
/* done() of fetch_start() is not called any more. Accepts NULL. */
void fetch_destroy(struct fetch *fetch);

/*
 * All images are here, and the machine knows (err NULL); or one cannot be had (err->code is EREMOTEIO).
 * Called once, from the loop; it may destroy the fetch.
 */
typedef void fetch_done_f(struct job *job, void *context, const struct belay_error *err);

/* The images of the epoch that come while their ranks run: of these, done() is told when all but their pages
 * is here. */
struct loads *fetch_loads(const struct fetch *fetch);

/* Fetch what the machine wants, at least one image. Returns 0 or -1 with err: done() is not called then. */
int fetch_start(struct fetch *fetch, fetch_done_f *done, void *context, struct belay_error *err);

#endif
