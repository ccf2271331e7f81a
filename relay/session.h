/*
 * session.h - a TCP connection between the two relays of a job: only who has the job's key is heard, and what
 * is said is encrypted.
 *
 * The relay of the other host begins. Three hellos (common/secure/hello.h) show both that the other one has
 * the key; of a stranger nothing but a hello of fixed size is read. Then come records: a length, a kind, a
 * channel and bytes, sealed under a key for each direction with a counter (common/secure/seal.h). A record
 * that does not open ends the session. Never blocks.
 */
#ifndef BELAY_RELAY_SESSION_H
#define BELAY_RELAY_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/secure/identity.h"
#include "common/util/error.h"
#include "common/wire/message.h"

#define SESSION_RECORD_BYTES (MESSAGE_MAX_BYTES + 4096u) /* of the bytes of a record at most */

enum record_kind {
    RECORD_NONE = 0,
    RECORD_BEAT,    /* I live */
    RECORD_JOINED,  /* host -> gatherer: the host's name */
    RECORD_WELCOME, /* gatherer -> host: it is one of the job's */
    RECORD_OPEN,    /* gatherer -> host: a client has come; the channel is its number */
    RECORD_CLOSE,   /* it has gone, or its agent has; bytes: why, if somebody is to know */
    RECORD_FENCE,   /* gatherer -> host: kill the agent, which is silent */
    RECORD_MESSAGE, /* of the client to the agent, or the other way */
    RECORD_OPENED,  /* such a message of the agent that comes with the streams of a job */
    RECORD_STREAMS, /* what follows, up to OPENED, is the state of these streams (mirror.h) */
    RECORD_OUTPUT,
    RECORD_HEAD,
    RECORD_TAKEN,
    RECORD_SLOT,
    RECORD_INPUT,
    RECORD_KINDS
};

struct record {
    enum record_kind kind;
    uint32_t channel;
    const uint8_t *bytes;
    size_t count;
};

/* What both ends know. */
struct session_key {
    uint8_t key[FABRIC_KEY_BYTES];
    uint8_t job[FABRIC_JOB_BYTES];
};

struct session;

/*
 * Over a connected socket, taken over also on failure. The host's relay begins, and says the number of its
 * node; the gatherer learns that number. NULL with err.
 */
struct session *session_begin(int sock, const struct session_key *key, uint32_t node,
                              struct belay_error *err);
struct session *session_await(int sock, const struct session_key *key, struct belay_error *err);
/* Accepts NULL. */
void session_destroy(struct session *session);

int session_fd(const struct session *session);
/* The events of poll(2) that it waits for. */
short session_events(const struct session *session);
/* Read and write what can be. Returns 0, or -1 with err: the session is over. */
int session_move(struct session *session, struct belay_error *err);

/* Both have shown that they have the key. */
bool session_is_open(const struct session *session);
/* Of the host; valid once it is open. */
uint32_t session_node(const struct session *session);
/* Bytes that wait to be sent. */
size_t session_waiting(const struct session *session);
/* When the last authentic byte came, on CLOCK_MONOTONIC in ms; at first, when the session was made. */
int64_t session_heard_ms(const struct session *session);

/*
 * Queue a record; `head`, head_count bytes, stands before the record's own bytes. Only when open. Returns 0
 * or -1 with errno (ENOMEM, EMSGSIZE).
 */
int session_put(struct session *session, const struct record *record, const void *head, size_t head_count);

/*
 * The next record that has come; its bytes are valid until the next call with this session. Returns 1, 0 if
 * there is none yet, or -1 with err: the session is over.
 */
int session_take(struct session *session, struct record *record, struct belay_error *err);

#endif
