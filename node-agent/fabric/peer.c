#include "node-agent/fabric/peer.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fault/fault.h"
#include "common/util/log.h"
#include "node-agent/fabric/events.h"
#include "node-agent/fabric/pull.h"
#include "node-agent/fabric/push.h"

#define RETRY_MS 100u /* after something could not be sent */
#define SOON_MS 5     /* until the endpoint is asked again that has said EAGAIN */

/* What the endpoint has sent; the cookie is the peer's number and this. */
enum posted { POSTED_FRAME = 0, POSTED_BEAT, POSTED_HELLO, POSTED_KINDS };

static void take_item(struct fabric_peer *peer, struct channel_item *item);
static int take_notice(struct fabric_peer *peer, const struct channel_item *item);
static bool turn(struct fabric_peer *peer, uint64_t now_ms);
static void check_silence(struct fabric_peer *peer, uint64_t now_ms);
static bool send_hello(struct fabric_peer *peer, uint64_t now_ms);
static bool send_beat(struct fabric_peer *peer, uint64_t now_ms);
static bool send_frames(struct fabric_peer *peer, uint64_t now_ms);
static bool send_bytes(struct fabric_peer *peer, const uint8_t *bytes, size_t count, enum posted kind,
                       uint64_t now_ms);
static void tell_lost(struct fabric_peer *peer);
static void end_transfers(struct fabric_peer *peer);

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
    peer->began_ms = fabric_now_ms();
    peer->joined = (struct event){.kind = EVENT_JOINED, .peer = peer};
    peer->writable = (struct event){.kind = EVENT_WRITABLE, .peer = peer};
    peer->broken = (struct event){.kind = EVENT_BROKEN, .peer = peer};
    peer->lost = (struct event){.kind = EVENT_LOST, .peer = peer};
    peer->next = fabric->peers;
    fabric->peers = peer;
    fabric->peer_count++;
    return peer;
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
    channel_destroy(peer->channel);
    sodium_memzero(&peer->session, sizeof peer->session);
    free(peer);
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

void peer_join(struct fabric_peer *peer, const uint8_t confirm[HELLO_BYTES], bool is_initiator,
               uint64_t now_ms)
{
    struct fabric *fabric = peer->fabric;
    struct hello_session *session = &peer->session;
    struct fabric_peer *former = peer_find(fabric, &peer->identity, PEER_JOINED, PEER_JOINED);
    hello_derive_session(&fabric->terms, confirm, session);
    peer->channel = channel_create(fabric->config.mode, session->id,
                                   is_initiator ? session->from_initiator : session->from_responder,
                                   is_initiator ? session->from_responder : session->from_initiator);
    if (!peer->channel) {
        peer_lose(peer, "there is no memory for its session");
        return;
    }
    if (former)
        peer_lose(former, "it has begun anew");
    peer->state = PEER_JOINED;
    peer->is_initiator = is_initiator;
    peer->is_confirmed = !is_initiator;
    peer->heard_ms = peer->beat_ms = now_ms;
    peer->is_owned = true;
    events_put(fabric, &peer->joined);
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

void peer_lose(struct fabric_peer *peer, const char *reason)
{
    if (peer->state == PEER_LOST || peer->state == PEER_GONE)
        return;
    peer->state = peer->is_owned ? PEER_LOST : PEER_GONE;
    snprintf(peer->reason, sizeof peer->reason, "%s", reason);
    peer->has_lost_word = peer->is_owned;
    end_transfers(peer);
    tell_lost(peer);
    fabric_wake(peer->fabric);
}

void peer_trouble(struct fabric_peer *peer, uint64_t now_ms)
{
    peer->retry_ms = now_ms + RETRY_MS;
    peer->must_rewind = true;
    if (peer->state == PEER_JOINED && !peer->has_told_broken)
        events_put(peer->fabric, &peer->broken);
    peer->has_told_broken = true;
}

void peers_take_frame(struct fabric *fabric, uint8_t *bytes, size_t count, uint64_t now_ms)
{
    struct frame frame;
    struct channel_item item;
    struct fabric_peer *peer = fabric->peers;
    int rc = frame_decode(bytes, count, &frame);
    while (rc == 0 && peer && (peer->state != PEER_JOINED || peer->session.id != frame.session))
        peer = peer->next;
    if (rc < 0 || !peer) {
        fabric->counts.frames_refused++;
        return;
    }
    switch (channel_receive(peer->channel, bytes, count, &item)) {
    case CHANNEL_OLD:
        return;
    case CHANNEL_REFUSED:
        fabric->counts.frames_refused++;
        return;
    case CHANNEL_BROKEN:
        peer_lose(peer, "it breaks the rules of a session, or there is no memory for its message");
        return;
    case CHANNEL_WHOLE:
        take_item(peer, &item);
        break;
    case CHANNEL_NOTHING:
        break;
    }
    peer->heard_ms = now_ms;
    peer->is_confirmed = true;
    peer->has_told_broken = false;
}

void peers_sent(struct fabric *fabric, uint64_t cookie, int error, uint64_t now_ms)
{
    struct fabric_peer *peer = fabric->peers;
    while (peer && peer->number != cookie / POSTED_KINDS)
        peer = peer->next;
    if (!peer)
        return;
    if (cookie % POSTED_KINDS == POSTED_FRAME)
        peer->posted--;
    else if (cookie % POSTED_KINDS == POSTED_BEAT)
        peer->is_beat_posted = false;
    if (error)
        peer_trouble(peer, now_ms);
}

int peers_turn(struct fabric *fabric, uint64_t now_ms)
{
    bool is_pending = false;
    for (struct fabric_peer *peer = fabric->peers, *next; peer; peer = next) {
        next = peer->next;
        check_silence(peer, now_ms);
        if (peer->state == PEER_GONE)
            peer_destroy(peer);
        else if (peer->state == PEER_LOST)
            tell_lost(peer);
        else
            is_pending |= turn(peer, now_ms);
    }
    return is_pending ? SOON_MS : (int)fabric->beat_every_ms / 2;
}

void peers_excuse(struct fabric *fabric, uint64_t still_ms)
{
    for (struct fabric_peer *peer = fabric->peers; peer; peer = peer->next) {
        peer->began_ms += still_ms;
        peer->heard_ms += still_ms;
    }
}

static void take_item(struct fabric_peer *peer, struct channel_item *item)
{
    if (item->kind == FRAME_MESSAGE) {
        if (events_put_message(peer, item) < 0)
            peer_lose(peer, "there is no memory for its message");
        return;
    }
    int rc = take_notice(peer, item);
    free(item->bytes);
    channel_taken(peer->channel, item->weight);
    if (rc < 0)
        peer_lose(peer, "it breaks the rules of a transfer");
}

static int take_notice(struct fabric_peer *peer, const struct channel_item *item)
{
    struct notice notice = {0};
    if (notice_decode(item->bytes, item->count, &notice) < 0)
        return -1;
    bool is_for_push = item->kind == FRAME_GRANT || item->kind == FRAME_DONE;
    return is_for_push ? push_take_notice(peer, item->kind, &notice)
                       : pull_take_notice(peer, item->kind, &notice);
}

/* True: try again soon. */
static bool turn(struct fabric_peer *peer, uint64_t now_ms)
{
    struct fabric *fabric = peer->fabric;
    bool is_pending = false;
    if (!peer->has_endpoint_peer &&
        endpoint_add_peer(fabric->endpoint, &peer->address, &peer->endpoint_peer) < 0) {
        peer_lose(peer, "its address cannot be used");
        return false;
    }
    peer->has_endpoint_peer = true;
    is_pending |= send_hello(peer, now_ms);
    if (peer->state != PEER_JOINED)
        return is_pending;
    for (struct fabric_push *push = peer->pushes; push; push = push->next)
        is_pending |= push_turn(push, now_ms);
    if (peer->state != PEER_JOINED)
        return false;
    is_pending |= send_frames(peer, now_ms);
    is_pending |= send_beat(peer, now_ms);
    if (peer->wants_writable && channel_has_room(peer->channel)) {
        peer->wants_writable = false;
        events_put(fabric, &peer->writable);
    }
    return is_pending;
}

static void check_silence(struct fabric_peer *peer, uint64_t now_ms)
{
    uint64_t stall_ms = peer->fabric->config.stall_ms;
    if (peer->state == PEER_JOINED && now_ms - peer->heard_ms >= stall_ms)
        peer_lose(peer, "nothing was heard of it for the stall time");
    else if ((peer->state == PEER_GREETING || peer->state == PEER_ANSWERING) &&
             now_ms - peer->began_ms >= stall_ms)
        peer_lose(peer, "it has not joined within the stall time");
}

/* FIRST again and again until it is answered, CONFIRM until a frame shows that it came. */
static bool send_hello(struct fabric_peer *peer, uint64_t now_ms)
{
    bool is_due = now_ms - peer->greeted_ms >= peer->fabric->beat_every_ms;
    if (is_due && peer->state == PEER_GREETING)
        peer->hello_due = peer->first;
    else if (is_due && peer->state == PEER_JOINED && peer->is_initiator && !peer->is_confirmed)
        peer->hello_due = peer->confirm;
    if (!peer->hello_due)
        return false;
    if (!send_bytes(peer, peer->hello_due, HELLO_BYTES, POSTED_HELLO, now_ms))
        return true;
    peer->greeted_ms = now_ms;
    peer->hello_due = NULL;
    return false;
}

static bool send_beat(struct fabric_peer *peer, uint64_t now_ms)
{
    uint8_t beat[FRAME_HEADER_BYTES + SEAL_MAC_BYTES];
    bool is_due = now_ms >= peer->beat_ms || channel_owes_beat(peer->channel);
    if (!is_due || peer->is_beat_posted || now_ms < peer->retry_ms)
        return false;
    size_t count = channel_beat(peer->channel, beat);
    if (!send_bytes(peer, beat, count, POSTED_BEAT, now_ms))
        return true;
    peer->is_beat_posted = true;
    peer->beat_ms = now_ms + peer->fabric->beat_every_ms;
    return false;
}

static bool send_frames(struct fabric_peer *peer, uint64_t now_ms)
{
    struct fabric *fabric = peer->fabric;
    const uint8_t *bytes;
    size_t count;
    if (now_ms < peer->retry_ms)
        return true;
    if ((peer->must_rewind && peer->posted == 0) || channel_is_stuck(peer->channel)) {
        fabric->counts.frames_repeated += channel_rewind(peer->channel);
        peer->must_rewind = false;
    }
    while (peer->posted < FABRIC_POSTED_MAX && !peer->must_rewind &&
           (bytes = channel_next(peer->channel, &count))) {
        if (!send_bytes(peer, bytes, count, POSTED_FRAME, now_ms))
            return true;
        channel_advance(peer->channel);
        peer->posted++;
    }
    return false;
}

/* False: not at present. */
static bool send_bytes(struct fabric_peer *peer, const uint8_t *bytes, size_t count, enum posted kind,
                       uint64_t now_ms)
{
    struct fabric *fabric = peer->fabric;
    uint8_t damaged[ENDPOINT_FRAME_BYTES];
    if (fault_hit("fabric.frame", (int)kind, fabric->counts.frames_sent + 1)) {
        memcpy(damaged, bytes, count);
        damaged[count / 2] ^= 1;
        bytes = damaged;
    }
    if (endpoint_send(fabric->endpoint, peer->endpoint_peer, bytes, count,
                      peer->number * POSTED_KINDS + kind) < 0) {
        if (errno != EAGAIN)
            peer_trouble(peer, now_ms);
        return false;
    }
    fabric->counts.frames_sent++;
    return true;
}

/* After all that there is to say of its transfers. */
static void tell_lost(struct fabric_peer *peer)
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

static void end_transfers(struct fabric_peer *peer)
{
    for (struct fabric_push *push = peer->pushes; push; push = push->next)
        push_end(push, ECONNRESET);
    for (struct fabric_pull *pull = peer->pulls; pull; pull = pull->next)
        pull_end(pull, ECONNRESET);
}
