/*
 * dispatch.h - the loop's turn: the events that wait are told to the caller, and what has ended is freed.
 */
#ifndef BELAY_NODE_AGENT_FABRIC_DISPATCH_H
#define BELAY_NODE_AGENT_FABRIC_DISPATCH_H

#include <uv.h>

/* uv_async_cb: call the callbacks. In the loop's thread, without the lock. */
void dispatch_events(uv_async_t *async);

#endif
