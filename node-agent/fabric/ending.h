/*
 * ending.h - how transfers end, and peers with all their transfers: at the end of the data, by an error of
 * either side, by a loss.
 *
 * All with the lock.
 */
#ifndef BELAY_NODE_AGENT_FABRIC_ENDING_H
#define BELAY_NODE_AGENT_FABRIC_ENDING_H

#include "node-agent/fabric/state.h"

/* The source slab is free; the filler looks for one. */
void source_release(struct fabric *fabric, struct slab *slab);
/* A push ends. The loop is told as soon as the filler is out of fill(). */
void push_end(struct fabric_push *push, int error);
/* Take a push out of the list of its peer and free it. It has ended, and the filler is out. */
void push_destroy(struct fabric_push *push);

/* The target slab is free; the pull holds one less. */
void target_release(struct fabric_pull *pull, struct slab *slab);
/* Take back the slabs that the sender may still write. must_renew: it may be writing. */
void pull_release_granted(struct fabric_pull *pull, bool must_renew);
/* A pull ends. Peer and loop are told as soon as the taker is out of take(). */
void pull_end(struct fabric_pull *pull, int error);
/* Take a pull out of the list of its peer and free it. It has ended, and the taker is out. */
void pull_destroy(struct fabric_pull *pull);

/*
 * A peer ends, with its transfers; once. An agent that has not joined, and that nobody asked for, goes
 * without a word.
 */
void peer_lose(struct fabric_peer *peer, const char *reason);
/* Tell the loop of a lost peer, after all that there is to say of its transfers. Else nothing. */
void peer_tell_lost(struct fabric_peer *peer);
/* In the progress thread, or when it has ended: no event may be about the peer any more. */
void peer_destroy(struct fabric_peer *peer);

#endif
