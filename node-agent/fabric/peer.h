/*
 * peer.h - one peer: made, found, told of a transfer.
 *
 * All with the lock. The times are clock_now_ms().
 */
#ifndef BELAY_NODE_AGENT_FABRIC_PEER_H
#define BELAY_NODE_AGENT_FABRIC_PEER_H

#include "node-agent/fabric/state.h"

/* A peer that nobody has spoken to; its state is to be set. NULL with errno: ENOSPC, ENOMEM. */
struct fabric_peer *peer_create(struct fabric *fabric, const struct fabric_identity *identity,
                                const struct fabric_address *address);
/* Of these states, by role and node; NULL: none. */
struct fabric_peer *peer_find(struct fabric *fabric, const struct fabric_identity *identity,
                              enum peer_state state, enum peer_state or_state);

/* Queue a notice. -1 with errno: ENOTCONN, ENOMEM. */
int peer_tell(struct fabric_peer *peer, enum frame_kind kind, const struct notice *notice);

/* Something could not be sent: tell the loop, and wait a little. */
void peer_trouble(struct fabric_peer *peer, uint64_t now_ms);

#endif
