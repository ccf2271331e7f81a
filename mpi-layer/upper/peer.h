/*
 * peer.h - the counts of messages between this rank and one other on a communicator: how many were sent, and
 * how many are still on their way. A drain compares them (drain.h).
 *
 * Plain numbers, so that tests/sim counts by the same rules.
 */
#ifndef BELAY_MPI_LAYER_UPPER_PEER_H
#define BELAY_MPI_LAYER_UPPER_PEER_H

#include <stdbool.h>
#include <stdint.h>

struct peer {              /* per rank of the communicator (of the remote group, if there are two) */
    uint64_t sent;         /* messages initiated to it */
    uint64_t told;         /* of those, how many the peer was told of at the last line */
    uint64_t received;     /* messages of the peer taken from the library */
    uint64_t expected;     /* how many the peer said to have sent, at the last line */
    uint32_t pending_sync; /* synchronous sends to it that are counted (sync.h) */
};

static inline bool peer_is_to_tell(const struct peer *peer)
{
    return peer->sent != peer->told;
}

/* Returns what it is told. */
static inline uint64_t peer_tell(struct peer *peer)
{
    peer->told = peer->sent;
    return peer->told;
}

/* The ranks could not agree that all have been told: it is told again at the next line. */
static inline void peer_take_back(struct peer *peer)
{
    peer->told = 0;
}

/* It says to have sent so many. What it said at an earlier line may come late. */
static inline void peer_expect(struct peer *peer, uint64_t count)
{
    if (count > peer->expected)
        peer->expected = count;
}

/* Messages from it that are known to be on their way. */
static inline uint64_t peer_missing(const struct peer *peer)
{
    return peer->received < peer->expected ? peer->expected - peer->received : 0;
}

#endif
