/*
 * pull.h - data on their way in: target slabs granted, and taken when they have been written.
 *
 * All with the lock, but pull_admit() and pull_refuse(). pull_run() is the taker's thread.
 */
#ifndef BELAY_NODE_AGENT_FABRIC_PULL_H
#define BELAY_NODE_AGENT_FABRIC_PULL_H

#include "node-agent/fabric/state.h"

#define PULLS_MAX 64u /* of a peer's, offered or under way */

/* fabric_admit() and fabric_refuse(). They take the lock. */
void pull_admit(struct fabric_pull *pull, fabric_take_f *take, void *context);
void pull_refuse(struct fabric_pull *pull, int error);

/* A word of the sender's: OFFER, WRITTEN or FINISHED. -1: it breaks the rules, or there is no memory. */
int pull_take_notice(struct fabric_peer *peer, enum frame_kind kind, const struct notice *notice);

/* Give keys that nobody knows to free slabs, and grant slabs to the transfers. In the progress thread. */
void pull_grant(struct fabric *fabric);

void *pull_run(void *fabric);

#endif
