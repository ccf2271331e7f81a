/*
 * hello.h - the handshake: two agents show one another that they have the job's key, and derive a session's
 * keys.
 *
 * Three hellos of one fixed size, each with an HMAC-SHA-256 over all of it, by a key of the epoch's:
 *
 *   FIRST    initiator -> responder   who, to whom, job, epoch, mode, address, nonce
 *   ANSWER   responder -> initiator   the same of the responder, and the hash of FIRST
 *   CONFIRM  initiator -> responder   the initiator's again, and the hash of ANSWER
 *
 * So each hash covers all that went before, both nonces among it: nobody who has only listened can make the
 * next one. The keys of the session, one for each direction, are a keyed BLAKE2b of the hash of CONFIRM,
 * which both know (compare SIGMA and TLS 1.3's schedule, RFC 8446, section 7.1). Pure but for that: no
 * sockets; random numbers and the order are drawn.
 */
#ifndef BELAY_COMMON_SECURE_HELLO_H
#define BELAY_COMMON_SECURE_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "common/secure/identity.h"
#include "common/secure/seal.h"

#define HELLO_BYTES 320u
#define HELLO_NONCE_BYTES 32u
#define HELLO_HASH_BYTES 32u
#define HELLO_VERSION 2u /* of all that is on the wire */

enum hello_kind { HELLO_NONE = 0, HELLO_FIRST, HELLO_ANSWER, HELLO_CONFIRM };

struct hello {
    enum hello_kind kind;
    enum fabric_mode mode;
    uint8_t job[FABRIC_JOB_BYTES];
    uint64_t epoch;
    uint64_t order; /* of `from`, by the time since its node's start: later ones are greater */
    struct fabric_identity from, to; /* in FIRST `to` may have the incarnation 0: not known yet */
    struct fabric_address address;   /* of `from` */
    uint8_t nonce[HELLO_NONCE_BYTES];
    uint8_t previous[HELLO_HASH_BYTES]; /* hash of the hello before; zeros in FIRST */
};

/* Why a hello is refused. */
enum hello_verdict {
    HELLO_OK = 0,
    HELLO_MALFORMED, /* not a hello */
    HELLO_VERSION_OTHER,
    HELLO_EPOCH_OTHER, /* as it says: who has sent it is not known, since each epoch has its own key */
    HELLO_KEY_OTHER,   /* damaged, or of somebody without the key */
    HELLO_JOB_OTHER,   /* from here on the MAC was right */
    HELLO_MODE_OTHER,
    HELLO_NOT_FOR_US,
    HELLO_VERDICTS
};
const char *hello_verdict_text(enum hello_verdict verdict);

/* What this agent expects of others and says of itself. */
struct hello_terms {
    uint8_t key[FABRIC_KEY_BYTES]; /* derived from the job's by one of hello_derive_...() */
    uint8_t job[FABRIC_JOB_BYTES];
    enum fabric_mode mode;
    uint64_t epoch;
    struct fabric_identity self;
    struct fabric_address address;
};

/* The key of hellos, so that the job's own is used for nothing else. */
void hello_derive_key(const uint8_t job_key[FABRIC_KEY_BYTES], uint8_t key[FABRIC_KEY_BYTES]);

/*
 * The key of the hellos of an epoch. Who has it, or all keys of another epoch and the job's key, has nothing
 * of this epoch without its secret.
 */
void hello_derive_epoch_key(const uint8_t job_key[FABRIC_KEY_BYTES], const struct fabric_epoch *epoch,
                            uint8_t key[FABRIC_KEY_BYTES]);

/* A hello to this agent, with a fresh nonce. `previous`: an encoded one, NULL in FIRST. */
void hello_make(const struct hello_terms *terms, enum hello_kind kind, const struct fabric_identity *to,
                const uint8_t *previous, uint8_t encoded[HELLO_BYTES]);

/* Whether bytes look like a hello of any version: such frames are read by hello_check() and nothing else. */
bool hello_is(const uint8_t *bytes, size_t count);

/*
 * Read and check what came from anybody. *hello is filled if the MAC is right, also where the job or mode is
 * another one.
 */
enum hello_verdict hello_check(const struct hello_terms *terms, const uint8_t *bytes, size_t count,
                               struct hello *hello);

/* Does it answer that one? */
bool hello_follows(const struct hello *hello, const uint8_t previous[HELLO_BYTES]);

/* What a session has: its number on the wire, and a key for each direction, from CONFIRM. */
struct hello_session {
    uint64_t id;
    uint8_t from_initiator[SEAL_KEY_BYTES], from_responder[SEAL_KEY_BYTES];
};
void hello_derive_session(const struct hello_terms *terms, const uint8_t confirm[HELLO_BYTES],
                          struct hello_session *session);

#endif
