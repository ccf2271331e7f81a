/*
 * greet.h - the handshake with peers: what is sent, and what is done about a hello that came (hello.h).
 *
 * All with the lock.
 */
#ifndef BELAY_NODE_AGENT_FABRIC_GREET_H
#define BELAY_NODE_AGENT_FABRIC_GREET_H

#include "node-agent/fabric/state.h"

/* We speak first. */
void greet_begin(struct fabric_peer *peer);

/* A hello of anybody's. What is wrong with it is logged here, some lines in each while. */
void greet_take(struct fabric *fabric, const uint8_t *bytes, size_t count, uint64_t now_ms);

#endif
