/*
 * channel.h - one session with a peer: frames sealed and opened, in order, once, none missing.
 *
 * The endpoint below may lose frames when a connection breaks, repeat none and keep the order otherwise. So
 * each ordered frame has a counter, is kept until the peer says that it has come, and is sent again, the same
 * bytes, from the first one that has not (go-back-N). A receiver that misses a frame, since a later one has
 * come, says so at once, by beats of its own. A receiver holds
 * CHANNEL_WINDOW_BYTES at most: a sender that does not keep to that is refused. Beats carry no body and say
 * what has come; they have a counter of their own, and one that is not new is ignored.
 *
 * Pure: no sockets, no clock, no threads; the caller moves frames and says when a beat is due.
 */
#ifndef BELAY_NODE_AGENT_FABRIC_CHANNEL_H
#define BELAY_NODE_AGENT_FABRIC_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node-agent/fabric/frame.h"

#define CHANNEL_WINDOW_BYTES                                                                                 \
    (2u * FABRIC_MESSAGE_BYTES) /* that one side may have on the way to the other's loop */
#define CHANNEL_QUEUE_BYTES (4u * FABRIC_MESSAGE_BYTES) /* that may wait to be sent, beyond one message */

struct channel;

/* NULL with errno. The keys may be wiped then. */
struct channel *channel_create(enum fabric_mode mode, uint64_t session, const uint8_t out_key[SEAL_KEY_BYTES],
                               const uint8_t in_key[SEAL_KEY_BYTES]);
void channel_destroy(struct channel *channel);

/*
 * Queue a message or, with another kind, a notice. -1 with errno: EAGAIN if too much waits (messages only),
 * ENOMEM.
 */
int channel_put(struct channel *channel, enum frame_kind kind, const void *bytes, size_t count);
/* Would a message be taken? */
bool channel_has_room(const struct channel *channel);

/* The next frame to be sent, sealed; NULL: none, or the peer's window is full. */
const uint8_t *channel_next(struct channel *channel, size_t *count);
/* It has been given to the endpoint. */
void channel_advance(struct channel *channel);
/* What was sent and has not been confirmed may be lost: begin again with it. Returns how many frames that
 * are. */
size_t channel_rewind(struct channel *channel);

/* A beat, sealed. */
size_t channel_beat(struct channel *channel, uint8_t to[FRAME_HEADER_BYTES + SEAL_MAC_BYTES]);
/* Should the peer soon be told what has come? It is with the next frame, of whatever kind. */
bool channel_owes_beat(const struct channel *channel);
/* The peer has said twice that what was sent has not come. */
bool channel_is_stuck(const struct channel *channel);

enum channel_verdict {
    CHANNEL_NOTHING = 0, /* a beat, a part of a message: the peer lives */
    CHANNEL_WHOLE,       /* a message or notice is whole */
    CHANNEL_OLD,         /* it had come already, or comes too early: says nothing, anybody may repeat it */
    CHANNEL_REFUSED,     /* damaged, or not of the peer: as if it had not come */
    CHANNEL_BROKEN,      /* the peer breaks the rules, or there is no memory: the session has to end */
};

/* What a channel gave: to be freed by the caller. */
struct channel_item {
    enum frame_kind kind;
    uint8_t *bytes;
    size_t count;
    size_t weight; /* for channel_taken() */
};

/* A frame of this session has come; it is decrypted in place. */
enum channel_verdict channel_receive(struct channel *channel, uint8_t *bytes, size_t count,
                                     struct channel_item *item);
/* An item that came holds no memory any more. */
void channel_taken(struct channel *channel, size_t weight);

const struct seal *channel_seal_out(const struct channel *channel);
const struct seal *channel_seal_in(const struct channel *channel);

#endif
