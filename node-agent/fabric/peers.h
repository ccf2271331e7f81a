/*
 * peers.h - all peers in a turn of the progress thread: their frames in both directions, and which are lost.
 *
 * All with the lock, in the progress thread. The times are clock_now_ms().
 */
#ifndef BELAY_NODE_AGENT_FABRIC_PEERS_H
#define BELAY_NODE_AGENT_FABRIC_PEERS_H

#include "node-agent/fabric/state.h"

/* A frame of a session came. */
void peers_take_frame(struct fabric *fabric, uint8_t *bytes, size_t count, uint64_t now_ms);
/* The endpoint has sent what has this cookie, or has not. */
void peers_sent(struct fabric *fabric, uint64_t cookie, int error, uint64_t now_ms);

/*
 * Send what is to be sent, find out which peers are lost, free the forgotten ones. Returns the milliseconds
 * until the next turn at the latest.
 */
int peers_turn(struct fabric *fabric, uint64_t now_ms);

/* This process stood still for so long: that is nobody's silence. */
void peers_excuse(struct fabric *fabric, uint64_t still_ms);

#endif
