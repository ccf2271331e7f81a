/*
 * push.h - data on their way out: chunks filled and sealed in source slabs, written to granted ones,
 * announced in order.
 *
 * All with the lock, but push_begin(). push_run() is the filler's thread.
 */
#ifndef BELAY_NODE_AGENT_FABRIC_PUSH_H
#define BELAY_NODE_AGENT_FABRIC_PUSH_H

#include "node-agent/fabric/state.h"

/* fabric_push(). Takes the lock. */
struct fabric_push *push_begin(struct fabric_peer *peer, const void *tag, size_t tag_bytes, uint64_t bytes,
                               fabric_fill_f *fill, void *context);

/* A word of the receiver's: GRANT or DONE. -1: it breaks the rules. */
int push_take_notice(struct fabric_peer *peer, enum frame_kind kind, const struct notice *notice);

/* Write and announce what can be. In the progress thread. True: try again soon. */
bool push_turn(struct fabric_push *push, uint64_t now_ms);
/* The endpoint has written a source slab, or has not. In the progress thread. */
void push_written(struct fabric *fabric, uint64_t chunk, int error, uint64_t now_ms);
/*
 * Give other memory to source slabs whose push has ended while the endpoint reads from them. In the progress
 * thread.
 */
void push_replace_slabs(struct fabric *fabric);

void *push_run(void *fabric);

#endif
