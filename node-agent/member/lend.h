/*
 * lend.h - images of this node on their way to members that fetch them (fetch.h).
 *
 * An image that is being sent is pinned: it does not change. All functions are called from the agent's loop.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_LEND_H
#define BELAY_NODE_AGENT_MEMBER_LEND_H

#include "coord/epoch.h"
#include "node-agent/job/job.h"
#include "node-agent/link/remote.h"
#include "node-agent/member/fetch_note.h"

struct lender;

/* remotes, start: borrowed. NULL with ENOMEM. */
struct lender *lender_create(struct job *job, struct remotes *remotes, const struct epoch_start *start);
/* What is on its way does not arrive. Accepts NULL. */
void lender_destroy(struct lender *lender);

/* The agent of a node wants an image. It is sent, or the node is told that it is not. */
void lender_take(struct lender *lender, uint32_t node, const struct fetch_note *note);

#endif
