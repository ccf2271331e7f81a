/*
 * events.h - what the threads of a fabric have to tell the loop, in order.
 */
#ifndef BELAY_NODE_AGENT_FABRIC_EVENTS_H
#define BELAY_NODE_AGENT_FABRIC_EVENTS_H

#include "node-agent/fabric/state.h"

/* The loop is told. One that is queued already stays where it is. With the lock. */
void events_put(struct fabric *fabric, struct event *event);
/* A message, which is taken over also if it fails. -1 with ENOMEM. With the lock. */
int events_put_message(struct fabric_peer *peer, const struct channel_item *item);
/* Nothing is said of this peer and its transfers any more; NULL: of any. With the lock. */
void events_forget(struct fabric *fabric, const struct fabric_peer *peer);

#endif
