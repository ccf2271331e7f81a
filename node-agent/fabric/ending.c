#include "node-agent/fabric/ending.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "node-agent/fabric/disturb.h"
#include "node-agent/fabric/events.h"
#include "node-agent/fabric/peer.h"

static void end_transfers(struct fabric_peer *peer);

void source_release(struct fabric *fabric, struct slab *slab)
{
    slab->state = SLAB_FREE;
    slab->push = NULL;
    pthread_cond_signal(&fabric->has_fill);
}

void push_end(struct fabric_push *push, int error)
{
    struct fabric *fabric = push->peer->fabric;
    if (push->has_ended)
        return;
    push->has_ended = true;
    push->error = error;
    for (struct slab *slab = push->first, *next; slab; slab = next) {
        next = slab->next;
        slab->push = NULL;
        if (slab->state == SLAB_WRITING) /* the endpoint still reads from it */
            push->peer->writing--;
        else
            source_release(fabric, slab);
    }
    push->first = push->last = NULL;
    if (!push->is_filling)
        events_put(fabric, &push->pushed);
}

void push_destroy(struct fabric_push *push)
{
    struct fabric_push **link = &push->peer->pushes;
    while (*link != push)
        link = &(*link)->next;
    *link = push->next;
    free(push);
}

void target_release(struct fabric_pull *pull, struct slab *slab)
{
    slab->state = SLAB_FREE;
    slab->pull = NULL;
    pull->held--;
}

void pull_release_granted(struct fabric_pull *pull, bool must_renew)
{
    struct slabs *targets = &pull->peer->fabric->targets;
    for (uint32_t i = 0; i < targets->count; i++) {
        struct slab *slab = &targets->slabs[i];
        if (slab->pull == pull && slab->state == SLAB_GRANTED) {
            slab->must_renew |= must_renew;
            target_release(pull, slab);
        }
    }
}

void pull_end(struct fabric_pull *pull, int error)
{
    struct notice done = {.transfer = pull->transfer, .error = (uint32_t)error};
    if (pull->has_ended)
        return;
    pull->has_ended = true;
    pull->error = error;
    while (pull->first) {
        struct slab *slab = pull->first;
        pull->first = slab->next;
        target_release(pull, slab);
    }
    pull_release_granted(pull, true);
    peer_tell(pull->peer, FRAME_DONE, &done);
    if (!pull->is_taking)
        events_put(pull->peer->fabric, &pull->pulled);
}

void pull_destroy(struct fabric_pull *pull)
{
    struct fabric_pull **link = &pull->peer->pulls;
    while (*link != pull)
        link = &(*link)->next;
    *link = pull->next;
    free(pull);
}

void peer_lose(struct fabric_peer *peer, const char *reason)
{
    if (peer->state == PEER_LOST || peer->state == PEER_GONE)
        return;
    peer->state = peer->is_owned ? PEER_LOST : PEER_GONE;
    snprintf(peer->reason, sizeof peer->reason, "%s", reason);
    peer->has_lost_word = peer->is_owned;
    end_transfers(peer);
    peer_tell_lost(peer);
    fabric_wake(peer->fabric);
}

void peer_tell_lost(struct fabric_peer *peer)
{
    bool is_busy = false;
    for (struct fabric_push *push = peer->pushes; push; push = push->next)
        is_busy |= push->is_filling;
    for (struct fabric_pull *pull = peer->pulls; pull; pull = pull->next)
        is_busy |= pull->is_taking;
    if (!peer->has_lost_word || is_busy)
        return;
    peer->has_lost_word = false;
    events_put(peer->fabric, &peer->lost);
}

void peer_destroy(struct fabric_peer *peer)
{
    struct fabric *fabric = peer->fabric;
    struct fabric_peer **link = &fabric->peers;
    while (*link != peer)
        link = &(*link)->next;
    *link = peer->next;
    fabric->peer_count--;
    while (peer->pushes)
        push_destroy(peer->pushes);
    while (peer->pulls)
        pull_destroy(peer->pulls);
    if (peer->has_endpoint_peer)
        endpoint_remove_peer(fabric->endpoint, peer->endpoint_peer);
    disturb_drop(peer);
    channel_destroy(peer->channel);
    sodium_memzero(&peer->session, sizeof peer->session);
    free(peer);
}

static void end_transfers(struct fabric_peer *peer)
{
    for (struct fabric_push *push = peer->pushes; push; push = push->next)
        push_end(push, ECONNRESET);
    for (struct fabric_pull *pull = peer->pulls; pull; pull = pull->next)
        pull_end(pull, ECONNRESET);
}
