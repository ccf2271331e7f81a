/*
 * loopback.h - a link within this process: the event loop delivers messages of either end in its next round.
 */
#ifndef BELAY_NODE_AGENT_LINK_LOOPBACK_H
#define BELAY_NODE_AGENT_LINK_LOOPBACK_H

#include <uv.h>

#include "node-agent/link/link.h"

/* Both ends, each to be destroyed by its owner. Returns 0 or -1 with ENOMEM. */
int loopback_create(uv_loop_t *loop, struct link *ends[2]);

/*
 * Deliver all messages in transit now, and the messages sent in answer; for use before the ends are
 * destroyed. Does nothing within a callback of the link. `end` is either end.
 */
void loopback_flush(struct link *end);

#endif
