/*
 * disturb.h - what tests do to frames and chunks on their way to a peer (docs/faults.md): they are lost, come
 * late and out of order, or come twice. Without BELAY_FAULT nothing is done.
 *
 * All with the lock, in the progress thread.
 */
#ifndef BELAY_NODE_AGENT_FABRIC_DISTURB_H
#define BELAY_NODE_AGENT_FABRIC_DISTURB_H

#include "node-agent/fabric/state.h"

/* A frame that is sent later. */
struct disturb_held {
    struct disturb_held *next;
    uint64_t due_ms;
    size_t count;
    uint8_t bytes[];
};

/*
 * A frame is about to be sent. True: the caller is to do as if it had been sent. It is lost, or a copy of it
 * is held, until disturb_due() gives it. A copy is also held of a frame that is to come twice.
 */
bool disturb_frame(struct fabric_peer *peer, const uint8_t *bytes, size_t count, uint64_t now_ms);
/* A held frame whose time has come; NULL: none. It stays held until disturb_sent(). */
const struct disturb_held *disturb_due(const struct fabric_peer *peer, uint64_t now_ms);
void disturb_sent(struct fabric_peer *peer, const struct disturb_held *held);
/* Is anything held? */
bool disturb_holds(const struct fabric_peer *peer);
void disturb_drop(struct fabric_peer *peer);

/*
 * A chunk of so many bytes has been filled, in a thread without the lock: stands still until a link of the
 * rate that a test sets would have carried it, after all chunks before it.
 */
void disturb_pace(struct fabric_peer *peer, size_t count);
/* A chunk is about to be written: is it to be lost? */
bool disturb_loses_chunk(const struct fabric_peer *peer, uint64_t chunk);

#endif
