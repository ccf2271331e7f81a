/*
 * pull.h - data on their way in: target slabs granted, and taken when they have been written.
 *
 * All with the lock. pull_run() is the taker's thread.
 */
#ifndef BELAY_NODE_AGENT_FABRIC_PULL_H
#define BELAY_NODE_AGENT_FABRIC_PULL_H

#include "node-agent/fabric/state.h"

#define PULLS_MAX 64u /* of a peer's, offered or under way */

/* A word of the sender's: OFFER, WRITTEN or FINISHED. -1: it breaks the rules, or there is no memory. */
int pull_take_notice(struct fabric_peer *peer, enum frame_kind kind, const struct notice *notice);

/* Give keys that nobody knows to free slabs, and grant slabs to the transfers. In the progress thread. */
void pull_grant(struct fabric *fabric);

/* The end, of which peer and loop are told as soon as the taker is out of take(). */
void pull_end(struct fabric_pull *pull, int error);
/* Out of the list of its peer and of memory; it has ended and the taker is out. */
void pull_destroy(struct fabric_pull *pull);

void *pull_run(void *fabric);

#endif
