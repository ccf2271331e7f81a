#include "node-agent/fabric/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/fault/fault.h"
#include "node-agent/fabric/disturb.h"
#include "node-agent/fabric/ending.h"
#include "node-agent/fabric/events.h"
#include "node-agent/fabric/peer.h"
#include "node-agent/fabric/pull.h"
#include "node-agent/fabric/push.h"

#define SOON_MS 5 /* until the endpoint is asked again that has said EAGAIN */

/* What the endpoint has sent; the cookie is the peer's number and this. */
enum posted { POSTED_FRAME = 0, POSTED_BEAT, POSTED_HELLO, POSTED_LATE, POSTED_KINDS };

static void take_item(struct fabric_peer *peer, struct channel_item *item);
static int take_notice(struct fabric_peer *peer, const struct channel_item *item);
static bool turn(struct fabric_peer *peer, uint64_t now_ms);
static void check_silence(struct fabric_peer *peer, uint64_t now_ms);
static void be_late(struct fabric_peer *peer);
static bool send_hello(struct fabric_peer *peer, uint64_t now_ms);
static bool send_beat(struct fabric_peer *peer, uint64_t now_ms);
static bool send_frames(struct fabric_peer *peer, uint64_t now_ms);
static bool send_bytes(struct fabric_peer *peer, const uint8_t *bytes, size_t count, enum posted kind,
                       uint64_t now_ms);
static bool send_held(struct fabric_peer *peer, uint64_t now_ms);
static bool post(struct fabric_peer *peer, const uint8_t *bytes, size_t count, enum posted kind,
                 uint64_t now_ms);

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
    if (cookie % POSTED_KINDS == POSTED_FRAME || cookie % POSTED_KINDS == POSTED_LATE)
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
            peer_tell_lost(peer);
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
    is_pending |= send_held(peer, now_ms) | send_hello(peer, now_ms);
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
        be_late(peer);
}

static void be_late(struct fabric_peer *peer)
{
    if (!peer->fabric->config.is_patient || !peer->is_owned)
        peer_lose(peer, "it has not joined within the stall time");
    else if (!peer->has_told_late)
        events_put(peer->fabric, &peer->late);
    peer->has_told_late = true;
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
    if (!disturb_frame(peer, bytes, count, now_ms) && !post(peer, bytes, count, kind, now_ms))
        return false;
    fabric->counts.frames_sent++;
    return true;
}

/* Those whose time has come. True: try again soon. */
static bool send_held(struct fabric_peer *peer, uint64_t now_ms)
{
    const struct disturb_held *held;
    while ((held = disturb_due(peer, now_ms)) && peer->posted < FABRIC_POSTED_MAX &&
           post(peer, held->bytes, held->count, POSTED_LATE, now_ms))
        disturb_sent(peer, held);
    return disturb_holds(peer);
}

static bool post(struct fabric_peer *peer, const uint8_t *bytes, size_t count, enum posted kind,
                 uint64_t now_ms)
{
    if (endpoint_send(peer->fabric->endpoint, peer->endpoint_peer, bytes, count,
                      peer->number * POSTED_KINDS + kind) < 0) {
        if (errno != EAGAIN)
            peer_trouble(peer, now_ms);
        return false;
    }
    if (kind == POSTED_FRAME || kind == POSTED_LATE)
        peer->posted++;
    else if (kind == POSTED_BEAT)
        peer->is_beat_posted = true;
    return true;
}
