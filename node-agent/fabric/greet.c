#include "node-agent/fabric/greet.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/log.h"
#include "node-agent/fabric/ending.h"
#include "node-agent/fabric/events.h"
#include "node-agent/fabric/peer.h"

static void take_first(struct fabric *fabric, const uint8_t *bytes, const struct hello *hello,
                       uint64_t now_ms);
static struct fabric_peer *find_for(struct fabric *fabric, const struct hello *hello, uint64_t now_ms);
static void take_answer(struct fabric *fabric, const uint8_t *bytes, const struct hello *hello,
                        uint64_t now_ms);
static void take_confirm(struct fabric *fabric, const uint8_t *bytes, const struct hello *hello,
                         uint64_t now_ms);
static void join(struct fabric_peer *peer, const uint8_t confirm[HELLO_BYTES], bool is_initiator,
                 uint64_t now_ms);
static bool is_ahead(const struct fabric_identity *one, const struct fabric_identity *other);
static void refuse(struct fabric *fabric, unsigned kind, const struct hello *hello, const char *why,
                   uint64_t now_ms);

void greet_begin(struct fabric_peer *peer)
{
    hello_make(&peer->fabric->terms, HELLO_FIRST, &peer->identity, NULL, peer->first);
    peer->state = PEER_GREETING;
}

void greet_take(struct fabric *fabric, const uint8_t *bytes, size_t count, uint64_t now_ms)
{
    struct hello hello;
    enum hello_verdict verdict = hello_check(&fabric->terms, bytes, count, &hello);
    if (verdict != HELLO_OK) {
        bool is_authentic = verdict >= HELLO_JOB_OTHER;
        refuse(fabric, verdict, is_authentic ? &hello : NULL, hello_verdict_text(verdict), now_ms);
    } else if (hello.kind == HELLO_FIRST) {
        take_first(fabric, bytes, &hello, now_ms);
    } else if (hello.kind == HELLO_ANSWER) {
        take_answer(fabric, bytes, &hello, now_ms);
    } else {
        take_confirm(fabric, bytes, &hello, now_ms);
    }
}

/*
 * One that was sent again, for it was not answered in time, is answered in the same way. If both have spoken
 * first, one of the two counts. It is said again: the other one may have come too late to hear it.
 */
static void take_first(struct fabric *fabric, const uint8_t *bytes, const struct hello *hello,
                       uint64_t now_ms)
{
    struct fabric_peer *peer = peer_find(fabric, &hello->from, PEER_GREETING, PEER_ANSWERING);
    if (peer && peer->state == PEER_GREETING && is_ahead(&fabric->terms.self, &hello->from)) {
        peer->hello_due = peer->first;
        return;
    }
    if (peer && peer->state == PEER_ANSWERING && memcmp(peer->first, bytes, HELLO_BYTES) == 0) {
        peer->hello_due = peer->answer;
        return;
    }
    peer = find_for(fabric, hello, now_ms);
    if (!peer)
        return;
    memcpy(peer->first, bytes, HELLO_BYTES);
    hello_make(&fabric->terms, HELLO_ANSWER, &hello->from, bytes, peer->answer);
    peer->order = hello->order;
    peer->state = PEER_ANSWERING;
    peer->hello_due = peer->answer;
}

/* The peer that this FIRST is of, maybe a new one; NULL: refused. */
static struct fabric_peer *find_for(struct fabric *fabric, const struct hello *hello, uint64_t now_ms)
{
    struct fabric_peer *waiting = peer_find(fabric, &hello->from, PEER_GREETING, PEER_ANSWERING);
    struct fabric_peer *joined = peer_find(fabric, &hello->from, PEER_JOINED, PEER_JOINED);
    const struct fabric_peer *known = waiting ? waiting : joined;
    uint64_t order = joined && (!waiting || joined->order > waiting->order) ? joined->order
                     : waiting                                              ? waiting->order
                                                                            : 0;
    const char *why = NULL;
    if (!known && !fabric->config.is_open)
        why = "that agent is not expected";
    else if (known && known->identity.incarnation != hello->from.incarnation)
        why = "it is of another incarnation of that agent";
    if (why) {
        refuse(fabric, LIMIT_STRANGER, hello, why, now_ms);
        return NULL;
    }
    if (hello->order <= order) {
        refuse(fabric, LIMIT_REPLAY, hello, "it came before", now_ms);
        return NULL;
    }
    if (!waiting)
        waiting = peer_create(fabric, &hello->from, &hello->address);
    if (!waiting)
        refuse(fabric, LIMIT_STRANGER, hello, strerror(errno), now_ms);
    return waiting;
}

static void take_answer(struct fabric *fabric, const uint8_t *bytes, const struct hello *hello,
                        uint64_t now_ms)
{
    struct fabric_peer *peer = peer_find(fabric, &hello->from, PEER_GREETING, PEER_GREETING);
    const struct fabric_peer *joined = peer_find(fabric, &hello->from, PEER_JOINED, PEER_JOINED);
    if (!peer && joined && joined->is_initiator && hello_follows(hello, joined->first))
        return; /* our first hello was said twice, and answered twice */
    if (!peer || peer->identity.incarnation != hello->from.incarnation ||
        !hello_follows(hello, peer->first)) {
        refuse(fabric, LIMIT_REPLAY, hello, "nobody waits for it", now_ms);
        return;
    }
    hello_make(&fabric->terms, HELLO_CONFIRM, &peer->identity, bytes, peer->confirm);
    peer->order = hello->order;
    peer->hello_due = peer->confirm;
    join(peer, peer->confirm, true, now_ms);
}

/* Sent again until we have sent a frame, so one that came before is nothing wrong. */
static void take_confirm(struct fabric *fabric, const uint8_t *bytes, const struct hello *hello,
                         uint64_t now_ms)
{
    struct fabric_peer *peer = peer_find(fabric, &hello->from, PEER_ANSWERING, PEER_ANSWERING);
    struct fabric_peer *joined = peer_find(fabric, &hello->from, PEER_JOINED, PEER_JOINED);
    if (joined && memcmp(joined->confirm, bytes, HELLO_BYTES) == 0)
        return;
    if (!peer || peer->identity.incarnation != hello->from.incarnation ||
        !hello_follows(hello, peer->answer)) {
        refuse(fabric, LIMIT_REPLAY, hello, "nobody waits for it", now_ms);
        return;
    }
    memcpy(peer->confirm, bytes, HELLO_BYTES);
    peer->order = hello->order;
    join(peer, bytes, false, now_ms);
}

/* The handshake is over: `confirm` is its last hello. A former session with the same agent is lost. */
static void join(struct fabric_peer *peer, const uint8_t confirm[HELLO_BYTES], bool is_initiator,
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

/* When both speak first at a time, both know whose hello counts. */
static bool is_ahead(const struct fabric_identity *one, const struct fabric_identity *other)
{
    return one->role != other->role ? one->role > other->role : one->node < other->node;
}

/* `hello` only if its MAC was right: nothing else in it is worth telling. */
static void refuse(struct fabric *fabric, unsigned kind, const struct hello *hello, const char *why,
                   uint64_t now_ms)
{
    uint64_t left_out;
    char from[64] = "", more[64] = "";
    fabric->counts.frames_refused++;
    if (!limit_allows(&fabric->limits[kind], now_ms, &left_out))
        return;
    if (hello)
        snprintf(from, sizeof from, " of node %u, epoch %llu", hello->from.node,
                 (unsigned long long)hello->epoch);
    if (left_out > 0)
        snprintf(more, sizeof more, " (%llu more like it were not told)", (unsigned long long)left_out);
    log_warning("fabric: refused a hello%s: %s%s", from, why, more);
}
