#include "relay/session.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/secure/bytes.h"
#include "common/secure/hello.h"
#include "common/secure/seal.h"
#include "common/util/clock.h"

#define LENGTH_BYTES 4u
#define RECORD_HEAD_BYTES (LENGTH_BYTES + 8u) /* length of what follows without the MAC, kind, channel */
#define FRAME_BYTES (RECORD_HEAD_BYTES + SESSION_RECORD_BYTES + SEAL_MAC_BYTES)
#define READ_BYTES (256u << 10)
#define GATHERER_NODE 0u
#define ONE_INCARNATION 1u /* a session's keys are its own: nothing is to be told apart by it */

/* Bytes from `at` to `end` count. */
struct queue {
    uint8_t *bytes;
    size_t at, end, room;
};

struct session {
    int sock;
    bool is_beginner;
    bool is_open;
    uint32_t node;
    struct hello_terms terms;
    struct fabric_identity peer;
    uint8_t said[HELLO_BYTES]; /* the last hello of ours, or, of one that awaits, the one to be confirmed */
    struct seal *out_seal, *in_seal;
    uint64_t out_count, in_count;
    struct queue in, out;
    int64_t heard_ms;
};

static int take_hello(struct session *session, struct belay_error *err);

/* Room for `more` bytes at the end. Returns 0 or -1 with ENOMEM. */
static int queue_reserve(struct queue *queue, size_t more)
{
    if (queue->at > 0) {
        memmove(queue->bytes, queue->bytes + queue->at, queue->end - queue->at);
        queue->end -= queue->at;
        queue->at = 0;
    }
    if (queue->room - queue->end >= more)
        return 0;
    size_t room = queue->end + more + queue->room / 2;
    uint8_t *bytes = realloc(queue->bytes, room);
    if (!bytes)
        return -1;
    queue->bytes = bytes;
    queue->room = room;
    return 0;
}

static size_t queue_count(const struct queue *queue)
{
    return queue->end - queue->at;
}

static int say_hello(struct session *session, enum hello_kind kind, const uint8_t *previous)
{
    if (queue_reserve(&session->out, HELLO_BYTES) < 0)
        return -1;
    hello_make(&session->terms, kind, &session->peer, previous, session->said);
    memcpy(session->out.bytes + session->out.end, session->said, HELLO_BYTES);
    session->out.end += HELLO_BYTES;
    return 0;
}

static struct session *create(int sock, const struct session_key *key, enum fabric_role role, uint32_t node,
                              struct belay_error *err)
{
    int rc = seal_prepare(err);
    struct session *session = rc == 0 ? calloc(1, sizeof *session) : NULL;
    if (!session) {
        if (rc == 0)
            belay_error_set(err, ENOMEM, "out of memory");
        close(sock);
        return NULL;
    }
    bool is_host = role == FABRIC_ROLE_MEMBER;
    session->sock = sock;
    session->is_beginner = is_host;
    session->node = node;
    session->heard_ms = clock_now_ms();
    session->terms.mode = FABRIC_MODE_ENCRYPT;
    session->terms.self = (struct fabric_identity){role, node, ONE_INCARNATION};
    session->terms.address.count = 1; /* nobody is to be found by it */
    memcpy(session->terms.job, key->job, sizeof key->job);
    hello_derive_key(key->key, session->terms.key);
    return session;
}

struct session *session_begin(int sock, const struct session_key *key, uint32_t node, struct belay_error *err)
{
    struct session *session = create(sock, key, FABRIC_ROLE_MEMBER, node, err);
    if (!session)
        return NULL;
    session->peer = (struct fabric_identity){FABRIC_ROLE_ARBITER, GATHERER_NODE, ONE_INCARNATION};
    if (say_hello(session, HELLO_FIRST, NULL) == 0)
        return session;
    belay_error_set(err, ENOMEM, "out of memory");
    session_destroy(session);
    return NULL;
}

struct session *session_await(int sock, const struct session_key *key, struct belay_error *err)
{
    return create(sock, key, FABRIC_ROLE_ARBITER, GATHERER_NODE, err);
}

void session_destroy(struct session *session)
{
    if (!session)
        return;
    close(session->sock);
    seal_destroy(session->out_seal);
    seal_destroy(session->in_seal);
    free(session->in.bytes);
    free(session->out.bytes);
    explicit_bzero(session, sizeof *session);
    free(session);
}

int session_fd(const struct session *session)
{
    return session->sock;
}

short session_events(const struct session *session)
{
    return queue_count(&session->out) > 0 ? POLLIN | POLLOUT : POLLIN;
}

bool session_is_open(const struct session *session)
{
    return session->is_open;
}

uint32_t session_node(const struct session *session)
{
    return session->node;
}

size_t session_waiting(const struct session *session)
{
    return queue_count(&session->out);
}

int64_t session_heard_ms(const struct session *session)
{
    return session->heard_ms;
}

/* ---- bytes in and out ---- */

static int send_waiting(struct session *session, struct belay_error *err)
{
    struct queue *out = &session->out;
    while (queue_count(out) > 0) {
        ssize_t sent =
            send(session->sock, out->bytes + out->at, queue_count(out), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            return 0;
        if (sent < 0)
            return belay_error_errno(err, "its connection is broken");
        out->at += (size_t)sent;
    }
    return 0;
}

/* How much more may be read: of a stranger one hello, of others one record and what follows it at once. */
static size_t room_for(const struct session *session)
{
    size_t most = session->is_open ? FRAME_BYTES + READ_BYTES : HELLO_BYTES, have = queue_count(&session->in);
    size_t room = have < most ? most - have : 0;
    return room < READ_BYTES ? room : READ_BYTES;
}

static int receive_more(struct session *session, struct belay_error *err)
{
    struct queue *in = &session->in;
    size_t room = room_for(session);
    if (room == 0)
        return 0;
    if (queue_reserve(in, room) < 0)
        return belay_error_set(err, ENOMEM, "out of memory");
    ssize_t got = recv(session->sock, in->bytes + in->end, room, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (got == 0)
        return belay_error_set(err, ECONNRESET, "its connection has ended");
    if (got < 0)
        return belay_error_errno(err, "its connection is broken");
    in->end += (size_t)got;
    return 0;
}

int session_move(struct session *session, struct belay_error *err)
{
    if (receive_more(session, err) < 0)
        return -1;
    while (!session->is_open && queue_count(&session->in) >= HELLO_BYTES)
        if (take_hello(session, err) < 0)
            return -1;
    return send_waiting(session, err);
}

/* ---- the handshake ---- */

/* The keys of the session, from the CONFIRM that was said or heard. */
static int open_session(struct session *session, const uint8_t confirm[HELLO_BYTES], struct belay_error *err)
{
    struct hello_session keys;
    hello_derive_session(&session->terms, confirm, &keys);
    const uint8_t *mine = session->is_beginner ? keys.from_initiator : keys.from_responder;
    const uint8_t *theirs = session->is_beginner ? keys.from_responder : keys.from_initiator;
    session->out_seal = seal_create(FABRIC_MODE_ENCRYPT, mine);
    session->in_seal = seal_create(FABRIC_MODE_ENCRYPT, theirs);
    explicit_bzero(&keys, sizeof keys);
    if (!session->out_seal || !session->in_seal)
        return belay_error_set(err, ENOMEM, "out of memory");
    session->is_open = true;
    session->heard_ms = clock_now_ms();
    return 0;
}

static int refuse_hello(struct belay_error *err, const char *why)
{
    return belay_error_set(err, EACCES, "its hello is refused: %s", why);
}

/* FIRST and CONFIRM, of one that awaits. */
static int answer_hello(struct session *session, const struct hello *hello, const uint8_t *bytes,
                        struct belay_error *err)
{
    bool is_first = session->peer.role == FABRIC_ROLE_NONE;
    if (hello->kind != (is_first ? HELLO_FIRST : HELLO_CONFIRM) || hello->from.role != FABRIC_ROLE_MEMBER)
        return refuse_hello(err, "it is out of order");
    if (!is_first && (hello->from.node != session->node || !hello_follows(hello, session->said)))
        return refuse_hello(err, "it does not follow the one before");
    if (!is_first)
        return open_session(session, bytes, err);
    session->peer = hello->from;
    session->node = hello->from.node;
    return say_hello(session, HELLO_ANSWER, bytes) == 0 ? 0 : belay_error_set(err, ENOMEM, "out of memory");
}

/* ANSWER, of the one that began. */
static int confirm_hello(struct session *session, const struct hello *hello, const uint8_t *bytes,
                         struct belay_error *err)
{
    if (hello->kind != HELLO_ANSWER || hello->from.role != FABRIC_ROLE_ARBITER ||
        !hello_follows(hello, session->said))
        return refuse_hello(err, "it does not answer ours");
    if (say_hello(session, HELLO_CONFIRM, bytes) < 0)
        return belay_error_set(err, ENOMEM, "out of memory");
    return open_session(session, session->said, err);
}

static int take_hello(struct session *session, struct belay_error *err)
{
    struct hello hello;
    uint8_t bytes[HELLO_BYTES];
    memcpy(bytes, session->in.bytes + session->in.at, HELLO_BYTES);
    session->in.at += HELLO_BYTES;
    enum hello_verdict verdict = hello_check(&session->terms, bytes, HELLO_BYTES, &hello);
    if (verdict != HELLO_OK)
        return refuse_hello(err, hello_verdict_text(verdict));
    return session->is_beginner ? confirm_hello(session, &hello, bytes, err)
                                : answer_hello(session, &hello, bytes, err);
}

/* ---- records ---- */

int session_put(struct session *session, const struct record *record, const void *head, size_t head_count)
{
    size_t count = RECORD_HEAD_BYTES + head_count + record->count;
    if (head_count + record->count > SESSION_RECORD_BYTES) {
        errno = EMSGSIZE;
        return -1;
    }
    if (queue_reserve(&session->out, count + SEAL_MAC_BYTES) < 0)
        return -1;
    uint8_t *frame = session->out.bytes + session->out.end, *at = frame;
    at = bytes_put_u32(at, (uint32_t)(count - LENGTH_BYTES));
    at = bytes_put_u32(at, record->kind);
    at = bytes_put_u32(at, record->channel);
    if (head_count > 0)
        at = bytes_put(at, head, head_count);
    if (record->count > 0)
        at = bytes_put(at, record->bytes, record->count);
    seal_close(session->out_seal, SEAL_SPACE_ORDERED, ++session->out_count, frame, LENGTH_BYTES, count, at);
    session->out.end += count + SEAL_MAC_BYTES;
    return 0;
}

int session_take(struct session *session, struct record *record, struct belay_error *err)
{
    struct queue *in = &session->in;
    if (!session->is_open || queue_count(in) < LENGTH_BYTES)
        return 0;
    uint8_t *frame = in->bytes + in->at;
    const uint8_t *at = frame;
    size_t count = LENGTH_BYTES + bytes_get_u32(&at);
    if (count < RECORD_HEAD_BYTES || count > RECORD_HEAD_BYTES + SESSION_RECORD_BYTES)
        return belay_error_set(err, EBADMSG, "it sends a record of an impossible length");
    if (queue_count(in) < count + SEAL_MAC_BYTES)
        return 0;
    if (seal_open(session->in_seal, SEAL_SPACE_ORDERED, session->in_count + 1, frame, LENGTH_BYTES, count,
                  frame + count) < 0)
        return belay_error_set(err, EBADMSG, "it sends a record that was not made with the job's key");
    session->in_count++;
    session->heard_ms = clock_now_ms();
    in->at += count + SEAL_MAC_BYTES;
    uint32_t kind = bytes_get_u32(&at);
    record->channel = bytes_get_u32(&at);
    record->bytes = at;
    record->count = count - RECORD_HEAD_BYTES;
    record->kind = (enum record_kind)kind;
    return kind > RECORD_NONE && kind < RECORD_KINDS
               ? 1
               : belay_error_set(err, EBADMSG, "it sends a record of an unknown kind");
}
