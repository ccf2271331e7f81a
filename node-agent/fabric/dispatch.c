#include "node-agent/fabric/dispatch.h"

#include <stdlib.h>

#include "node-agent/fabric/ending.h"
#include "node-agent/fabric/state.h"

#define EVENTS_A_TURN 64u /* of the loop, before others have theirs */

static bool take_first(struct fabric *fabric, struct event *copy);
static void tell(struct fabric *fabric, const struct event *event);
static void after(struct fabric *fabric, const struct event *event);

void dispatch_events(uv_async_t *async)
{
    struct fabric *fabric = async->data;
    struct event event;
    pthread_mutex_lock(&fabric->lock);
    for (unsigned i = 0; i < EVENTS_A_TURN && take_first(fabric, &event); i++) {
        fabric->speaking = event.peer;
        fabric->is_speaking = true;
        pthread_mutex_unlock(&fabric->lock);
        tell(fabric, &event);
        pthread_mutex_lock(&fabric->lock);
        fabric->is_speaking = false;
        after(fabric, &event);
    }
    if (fabric->first_event)
        uv_async_send(fabric->async);
    pthread_mutex_unlock(&fabric->lock);
}

/* A copy: a callback may end the life of what the event is part of. */
static bool take_first(struct fabric *fabric, struct event *copy)
{
    struct event *event = fabric->first_event;
    if (!event)
        return false;
    fabric->first_event = event->next;
    if (!event->next)
        fabric->last_event = NULL;
    event->is_queued = false;
    *copy = *event;
    if (event->kind == EVENT_RECEIVED)
        free(event);
    return true;
}

static void tell(struct fabric *fabric, const struct event *event)
{
    const struct fabric_ops *ops = fabric->ops;
    struct fabric_pull *pull = event->pull;
    switch (event->kind) {
    case EVENT_JOINED:
        ops->joined(fabric->context, event->peer);
        break;
    case EVENT_RECEIVED:
        ops->received(fabric->context, event->peer, event->item.bytes, event->item.count);
        break;
    case EVENT_WRITABLE:
        ops->writable(fabric->context, event->peer);
        break;
    case EVENT_LATE:
        ops->late(fabric->context, event->peer);
        break;
    case EVENT_BROKEN:
        ops->broken(fabric->context, event->peer);
        break;
    case EVENT_LOST:
        ops->lost(fabric->context, event->peer, event->peer->reason);
        break;
    case EVENT_OFFERED:
        ops->offered(fabric->context, event->peer, pull, pull->tag, pull->tag_bytes, pull->bytes);
        break;
    case EVENT_PULLED:
        ops->pulled(fabric->context, pull, pull->error);
        break;
    case EVENT_PUSHED:
        ops->pushed(fabric->context, event->push, event->push->error);
        break;
    case EVENT_NONE:
        break;
    }
}

/* If the callback has forgotten the peer, its transfers are gone as well. */
static void after(struct fabric *fabric, const struct event *event)
{
    struct fabric_peer *peer = fabric->speaking;
    fabric->speaking = NULL;
    if (event->kind == EVENT_RECEIVED) {
        if (peer && peer->state == PEER_JOINED) {
            channel_taken(peer->channel, event->item.weight);
            if (channel_owes_beat(peer->channel))
                fabric_wake(fabric);
        }
        free(event->item.bytes);
    } else if (peer && event->kind == EVENT_PULLED) {
        pull_destroy(event->pull);
    } else if (peer && event->kind == EVENT_PUSHED) {
        push_destroy(event->push);
    }
}
