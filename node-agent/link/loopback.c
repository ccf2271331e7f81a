#include "node-agent/link/loopback.h"

#include <errno.h>
#include <stdlib.h>

/* Handed on in one round of the loop at most, so that its other events do not wait for long. */
#define MESSAGES_A_TURN 64

struct loopback;

/* A message on its way to one of the ends. */
struct parcel {
    struct parcel *next;
    uint8_t *bytes;
    size_t count;
};

struct end {
    struct link link;
    struct loopback *pair;
    bool is_destroyed;
    bool has_heard_loss;
    struct parcel *first, *last; /* not received yet */
};

struct loopback {
    uv_idle_t turn; /* runs while there is something to be handed on */
    struct end ends[2];
    bool is_lost;
    const char *reason;
    bool is_delivering; /* a callback runs */
};

static void start(struct link *link);
static void hand_over(struct link *link, uint8_t *bytes, size_t count);
static void destroy(struct link *link);
static struct end *other(struct end *end);
static void lose(struct loopback *pair, const char *reason);
static void on_turn(uv_idle_t *handle);
static bool deliver_both(struct loopback *pair);
static bool deliver_one(struct end *end);
static void drop_parcels(struct end *end);
static void on_closed(uv_handle_t *handle);

static const struct link_class loopback_class = {.open = start, .send = hand_over, .destroy = destroy};

int loopback_create(uv_loop_t *loop, struct link *ends[2])
{
    struct loopback *pair = calloc(1, sizeof *pair);
    if (!pair) {
        errno = ENOMEM;
        return -1;
    }
    uv_idle_init(loop, &pair->turn); /* cannot fail */
    pair->turn.data = pair;
    for (int i = 0; i < 2; i++) {
        pair->ends[i] = (struct end){.link.class = &loopback_class, .pair = pair};
        ends[i] = &pair->ends[i].link;
    }
    return 0;
}

void loopback_flush(struct link *end)
{
    struct loopback *pair = ((struct end *)end)->pair;
    while (deliver_both(pair))
        ;
}

/* Something may have come before. */
static void start(struct link *link)
{
    uv_idle_start(&((struct end *)link)->pair->turn, on_turn);
}

static void hand_over(struct link *link, uint8_t *bytes, size_t count)
{
    struct end *end = (struct end *)link;
    struct end *to = other(end);
    struct parcel *parcel = end->pair->is_lost || !bytes ? NULL : calloc(1, sizeof *parcel);
    if (!parcel) {
        free(bytes);
        lose(end->pair, "a message could not be sent");
        return;
    }
    parcel->bytes = bytes;
    parcel->count = count;
    if (to->last)
        to->last->next = parcel;
    else
        to->first = parcel;
    to->last = parcel;
    uv_idle_start(&end->pair->turn, on_turn);
}

static void destroy(struct link *link)
{
    struct end *end = (struct end *)link;
    struct loopback *pair = end->pair;
    end->is_destroyed = true;
    drop_parcels(end);
    if (other(end)->is_destroyed)
        uv_close((uv_handle_t *)&pair->turn, on_closed);
    else
        lose(pair, "the other end has gone");
}

static struct end *other(struct end *end)
{
    return end == &end->pair->ends[0] ? &end->pair->ends[1] : &end->pair->ends[0];
}

/* Told after what had been sent before. */
static void lose(struct loopback *pair, const char *reason)
{
    if (!pair->is_lost)
        pair->reason = reason;
    pair->is_lost = true;
    uv_idle_start(&pair->turn, on_turn);
}

/*
 * A callback may send, and may destroy either end: the pair itself is not freed before the loop comes to it.
 */
static void on_turn(uv_idle_t *handle)
{
    struct loopback *pair = handle->data;
    bool has_more = true;
    for (int i = 0; has_more && i < MESSAGES_A_TURN; i++)
        has_more = deliver_both(pair);
    if (!has_more && !uv_is_closing((uv_handle_t *)handle))
        uv_idle_stop(handle);
}

/* One message to each end. True if there may be more. */
static bool deliver_both(struct loopback *pair)
{
    bool has_more = false;
    if (pair->is_delivering)
        return false;
    pair->is_delivering = true;
    for (int i = 0; i < 2; i++)
        has_more |= deliver_one(&pair->ends[i]);
    pair->is_delivering = false;
    return has_more;
}

/* True if there may be more. */
static bool deliver_one(struct end *end)
{
    struct parcel *parcel = end->first;
    if (end->is_destroyed || !end->link.ops)
        return false;
    if (!parcel && end->pair->is_lost && !end->has_heard_loss) {
        end->has_heard_loss = true;
        end->link.ops->lost(end->link.context, end->pair->reason);
        return true;
    }
    if (!parcel)
        return false;
    end->first = parcel->next;
    if (!end->first)
        end->last = NULL;
    end->link.ops->received(end->link.context, parcel->bytes, parcel->count);
    free(parcel->bytes);
    free(parcel);
    return true;
}

static void drop_parcels(struct end *end)
{
    for (struct parcel *parcel = end->first, *next; parcel; parcel = next) {
        next = parcel->next;
        free(parcel->bytes);
        free(parcel);
    }
    end->first = end->last = NULL;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}
