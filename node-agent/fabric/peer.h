/*
 * peer.h - the life of a peer: from the first hello until it is lost or forgotten, and its frames in both
 * directions.
 *
 * All with the lock. The times are fabric_now_ms().
 */
#ifndef BELAY_NODE_AGENT_FABRIC_PEER_H
#define BELAY_NODE_AGENT_FABRIC_PEER_H

#include "node-agent/fabric/state.h"

/* A peer that nobody has spoken to; its state is to be set. NULL with errno: ENOSPC, ENOMEM. */
struct fabric_peer *peer_create(struct fabric *fabric, const struct fabric_identity *identity,
                                const struct fabric_address *address);
/* In the progress thread, or when it has ended: no event may be about the peer any more. */
void peer_destroy(struct fabric_peer *peer);

/* Of these states, by role and node; NULL: none. */
struct fabric_peer *peer_find(struct fabric *fabric, const struct fabric_identity *identity,
                              enum peer_state state, enum peer_state or_state);

/* The handshake is over: `confirm` is its last hello. A former session with the same agent is lost. */
void peer_join(struct fabric_peer *peer, const uint8_t confirm[HELLO_BYTES], bool is_initiator,
               uint64_t now_ms);

/* Queue a notice. -1 with errno: ENOTCONN, ENOMEM. */
int peer_tell(struct fabric_peer *peer, enum frame_kind kind, const struct notice *notice);

/* It ends here; once. An agent that has not joined, and that nobody asked for, goes without a word. */
void peer_lose(struct fabric_peer *peer, const char *reason);
/* Something could not be sent: tell the loop, and wait a little. */
void peer_trouble(struct fabric_peer *peer, uint64_t now_ms);

/* A frame of a session came. In the progress thread. */
void peers_take_frame(struct fabric *fabric, uint8_t *bytes, size_t count, uint64_t now_ms);
/* The endpoint has sent what has this cookie, or has not. In the progress thread. */
void peers_sent(struct fabric *fabric, uint64_t cookie, int error, uint64_t now_ms);

/*
 * Send what is to be sent, find out who is lost, free who is forgotten. In the progress thread. Returns the
 * milliseconds until the next turn at the latest.
 */
int peers_turn(struct fabric *fabric, uint64_t now_ms);

/* This process stood still for so long: that is nobody's silence. */
void peers_excuse(struct fabric *fabric, uint64_t still_ms);

#endif
