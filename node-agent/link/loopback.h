/*
 * loopback.h - a link within this process: the loop hands on in its next round what either end has sent.
 */
#ifndef BELAY_NODE_AGENT_LINK_LOOPBACK_H
#define BELAY_NODE_AGENT_LINK_LOOPBACK_H

#include <uv.h>

#include "node-agent/link/link.h"

/* Both ends, each to be destroyed by its owner. Returns 0 or -1 with ENOMEM. */
int loopback_create(uv_loop_t *loop, struct link *ends[2]);

/*
 * Hand on here and now all that is on its way, and what is sent in answer: before the ends are destroyed.
 * Does nothing within a callback of the link. `end` is either.
 */
void loopback_flush(struct link *end);

#endif
