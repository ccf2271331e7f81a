#include "node-agent/fabric/peer.h"

#include <errno.h>
#include <stdlib.h>

#include "common/util/clock.h"
#include "node-agent/fabric/events.h"

#define RETRY_MS 100u /* after something could not be sent */

struct fabric_peer *peer_create(struct fabric *fabric, const struct fabric_identity *identity,
                                const struct fabric_address *address)
{
    if (fabric->peer_count >= fabric->config.peers) {
        errno = ENOSPC;
        return NULL;
    }
    struct fabric_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    peer->fabric = fabric;
    peer->number = ++fabric->last_number;
    peer->identity = *identity;
    peer->address = *address;
    peer->began_ms = clock_now_ms();
    peer->joined = (struct event){.kind = EVENT_JOINED, .peer = peer};
    peer->writable = (struct event){.kind = EVENT_WRITABLE, .peer = peer};
    peer->late = (struct event){.kind = EVENT_LATE, .peer = peer};
    peer->broken = (struct event){.kind = EVENT_BROKEN, .peer = peer};
    peer->lost = (struct event){.kind = EVENT_LOST, .peer = peer};
    peer->next = fabric->peers;
    fabric->peers = peer;
    fabric->peer_count++;
    return peer;
}

struct fabric_peer *peer_find(struct fabric *fabric, const struct fabric_identity *identity,
                              enum peer_state state, enum peer_state or_state)
{
    struct fabric_peer *peer = fabric->peers;
    while (peer && (peer->identity.role != identity->role || peer->identity.node != identity->node ||
                    (peer->state != state && peer->state != or_state)))
        peer = peer->next;
    return peer;
}

int peer_tell(struct fabric_peer *peer, enum frame_kind kind, const struct notice *notice)
{
    uint8_t body[NOTICE_BYTES];
    if (peer->state != PEER_JOINED) {
        errno = ENOTCONN;
        return -1;
    }
    return channel_put(peer->channel, kind, body, notice_encode(notice, body));
}

void peer_trouble(struct fabric_peer *peer, uint64_t now_ms)
{
    peer->retry_ms = now_ms + RETRY_MS;
    peer->must_rewind = true;
    if (peer->state == PEER_JOINED && !peer->has_told_broken)
        events_put(peer->fabric, &peer->broken);
    peer->has_told_broken = true;
}
