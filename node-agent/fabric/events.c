#include "node-agent/fabric/events.h"

#include <errno.h>
#include <stdlib.h>

void events_put(struct fabric *fabric, struct event *event)
{
    if (event->is_queued)
        return;
    event->is_queued = true;
    event->next = NULL;
    if (fabric->last_event)
        fabric->last_event->next = event;
    else
        fabric->first_event = event;
    fabric->last_event = event;
    uv_async_send(fabric->async);
}

int events_put_message(struct fabric_peer *peer, const struct channel_item *item)
{
    struct event *event = calloc(1, sizeof *event);
    if (!event) {
        free(item->bytes);
        errno = ENOMEM;
        return -1;
    }
    event->kind = EVENT_RECEIVED;
    event->peer = peer;
    event->item = *item;
    events_put(peer->fabric, event);
    return 0;
}

void events_forget(struct fabric *fabric, const struct fabric_peer *peer)
{
    struct event **link = &fabric->first_event, *event;
    fabric->last_event = NULL;
    while ((event = *link)) {
        if (peer && event->peer != peer) {
            fabric->last_event = event;
            link = &event->next;
            continue;
        }
        *link = event->next;
        event->is_queued = false;
        if (event->kind == EVENT_RECEIVED) {
            free(event->item.bytes);
            free(event);
        }
    }
}
