#include "common/secure/hello.h"

#include <sodium.h>
#include <string.h>
#include <time.h>

#include "common/secure/bytes.h"

/*
 * magic 8, version 4, kind 4, mode 4, job 16, epoch 8, order 8, from 16, to 16, address's length 4 and bytes
 * 128, nonce 32, previous 32, zeros; the MAC at the end.
 */
#define MAGIC "blyhello"
#define MAGIC_BYTES 8u
#define MAC_BYTES crypto_auth_hmacsha256_BYTES
#define MAC_AT (HELLO_BYTES - MAC_BYTES)
#define USED_BYTES 280u
#define EPOCH_AT (MAGIC_BYTES + 3 * sizeof(uint32_t) + FABRIC_JOB_BYTES)

_Static_assert(USED_BYTES <= MAC_AT, "a hello's fields and its MAC fit");

static uint64_t now_ns(void);
static uint8_t *put_identity(uint8_t *at, const struct fabric_identity *identity);
static void get_identity(const uint8_t **at, struct fabric_identity *identity);
static int decode(const uint8_t *bytes, struct hello *hello);
static enum hello_verdict judge(const struct hello_terms *terms, const struct hello *hello);
static void hash(const uint8_t encoded[HELLO_BYTES], uint8_t sum[HELLO_HASH_BYTES]);

const char *hello_verdict_text(enum hello_verdict verdict)
{
    static const char *const texts[HELLO_VERDICTS] = {
        [HELLO_OK] = "it is right",
        [HELLO_MALFORMED] = "it is malformed",
        [HELLO_VERSION_OTHER] = "it is of another version of Belay",
        [HELLO_KEY_OTHER] = "it was not made with the job's key for this epoch, or is damaged",
        [HELLO_JOB_OTHER] = "it is of another job",
        [HELLO_MODE_OTHER] = "one of both encrypts, the other does not",
        [HELLO_EPOCH_OTHER] = "it says that it is of another epoch",
        [HELLO_NOT_FOR_US] = "it is for another agent, or for an earlier incarnation of this one",
    };
    return texts[verdict];
}

void hello_derive_key(const uint8_t job_key[FABRIC_KEY_BYTES], uint8_t key[FABRIC_KEY_BYTES])
{
    crypto_kdf_derive_from_key(key, FABRIC_KEY_BYTES, 1, MAGIC, job_key);
}

void hello_derive_epoch_key(const uint8_t job_key[FABRIC_KEY_BYTES], const struct fabric_epoch *epoch,
                            uint8_t key[FABRIC_KEY_BYTES])
{
    uint8_t text[MAGIC_BYTES + sizeof(uint64_t) + FABRIC_SECRET_BYTES], *at = text;
    at = bytes_put(at, "blyepoch", MAGIC_BYTES);
    at = bytes_put_u64(at, epoch->number);
    bytes_put(at, epoch->secret, FABRIC_SECRET_BYTES);
    crypto_generichash(key, FABRIC_KEY_BYTES, text, sizeof text, job_key, FABRIC_KEY_BYTES);
    sodium_memzero(text, sizeof text);
}

void hello_make(const struct hello_terms *terms, enum hello_kind kind, const struct fabric_identity *to,
                const uint8_t *previous, uint8_t encoded[HELLO_BYTES])
{
    uint8_t *at = encoded, nonce[HELLO_NONCE_BYTES], sum[HELLO_HASH_BYTES] = {0};
    randombytes_buf(nonce, sizeof nonce);
    if (previous)
        hash(previous, sum);
    memset(encoded, 0, HELLO_BYTES);
    at = bytes_put(at, MAGIC, MAGIC_BYTES);
    at = bytes_put_u32(at, HELLO_VERSION);
    at = bytes_put_u32(at, kind);
    at = bytes_put_u32(at, terms->mode);
    at = bytes_put(at, terms->job, FABRIC_JOB_BYTES);
    at = bytes_put_u64(at, terms->epoch);
    at = bytes_put_u64(at, now_ns());
    at = put_identity(at, &terms->self);
    at = put_identity(at, to);
    at = bytes_put_u32(at, (uint32_t)terms->address.count);
    memcpy(at, terms->address.bytes, terms->address.count);
    at += FABRIC_ADDRESS_BYTES;
    at = bytes_put(at, nonce, sizeof nonce);
    bytes_put(at, sum, sizeof sum);
    crypto_auth_hmacsha256(encoded + MAC_AT, encoded, MAC_AT, terms->key);
}

bool hello_is(const uint8_t *bytes, size_t count)
{
    return count >= MAGIC_BYTES && memcmp(bytes, MAGIC, MAGIC_BYTES) == 0;
}

enum hello_verdict hello_check(const struct hello_terms *terms, const uint8_t *bytes, size_t count,
                               struct hello *hello)
{
    const uint8_t *version = bytes + MAGIC_BYTES, *epoch = bytes + EPOCH_AT;
    if (!hello_is(bytes, count) || count < MAGIC_BYTES + sizeof(uint32_t))
        return HELLO_MALFORMED;
    if (bytes_get_u32(&version) != HELLO_VERSION)
        return HELLO_VERSION_OTHER;
    if (count != HELLO_BYTES)
        return HELLO_MALFORMED;
    if (bytes_get_u64(&epoch) != terms->epoch)
        return HELLO_EPOCH_OTHER;
    if (crypto_auth_hmacsha256_verify(bytes + MAC_AT, bytes, MAC_AT, terms->key) != 0)
        return HELLO_KEY_OTHER;
    return decode(bytes, hello) < 0 ? HELLO_MALFORMED : judge(terms, hello);
}

bool hello_follows(const struct hello *hello, const uint8_t previous[HELLO_BYTES])
{
    uint8_t sum[HELLO_HASH_BYTES];
    hash(previous, sum);
    return sodium_memcmp(hello->previous, sum, sizeof sum) == 0;
}

void hello_derive_session(const struct hello_terms *terms, const uint8_t confirm[HELLO_BYTES],
                          struct hello_session *session)
{
    uint8_t sum[HELLO_HASH_BYTES], master[crypto_kdf_KEYBYTES], name[crypto_kdf_BYTES_MIN];
    hash(confirm, sum);
    crypto_generichash(master, sizeof master, sum, sizeof sum, terms->key, sizeof terms->key);
    crypto_kdf_derive_from_key(name, sizeof name, 1, "blynames", master);
    memcpy(&session->id, name, sizeof session->id);
    crypto_kdf_derive_from_key(session->from_initiator, SEAL_KEY_BYTES, 2, "blyseals", master);
    crypto_kdf_derive_from_key(session->from_responder, SEAL_KEY_BYTES, 3, "blyseals", master);
    sodium_memzero(master, sizeof master);
}

/* The memory of an incarnation does not outlive its node, so this grows as long as one lasts. */
static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint8_t *put_identity(uint8_t *at, const struct fabric_identity *identity)
{
    at = bytes_put_u32(at, identity->role);
    at = bytes_put_u32(at, identity->node);
    return bytes_put_u64(at, identity->incarnation);
}

static void get_identity(const uint8_t **at, struct fabric_identity *identity)
{
    identity->role = bytes_get_u32(at);
    identity->node = bytes_get_u32(at);
    identity->incarnation = bytes_get_u64(at);
}

/* A right MAC says that a peer made it; what it means is checked all the same. */
static int decode(const uint8_t *bytes, struct hello *hello)
{
    const uint8_t *at = bytes + MAGIC_BYTES + sizeof(uint32_t);
    *hello = (struct hello){0};
    hello->kind = bytes_get_u32(&at);
    hello->mode = bytes_get_u32(&at);
    bytes_get(&at, hello->job, FABRIC_JOB_BYTES);
    hello->epoch = bytes_get_u64(&at);
    hello->order = bytes_get_u64(&at);
    get_identity(&at, &hello->from);
    get_identity(&at, &hello->to);
    hello->address.count = bytes_get_u32(&at);
    bytes_get(&at, hello->address.bytes, FABRIC_ADDRESS_BYTES);
    bytes_get(&at, hello->nonce, HELLO_NONCE_BYTES);
    bytes_get(&at, hello->previous, HELLO_HASH_BYTES);
    bool is_sound = hello->kind >= HELLO_FIRST && hello->kind <= HELLO_CONFIRM &&
                    hello->from.role >= FABRIC_ROLE_MEMBER && hello->from.role <= FABRIC_ROLE_ARBITER &&
                    hello->address.count > 0 && hello->address.count <= FABRIC_ADDRESS_BYTES;
    return is_sound ? 0 : -1;
}

static enum hello_verdict judge(const struct hello_terms *terms, const struct hello *hello)
{
    const struct fabric_identity *self = &terms->self, *to = &hello->to;
    bool is_known = to->incarnation != 0 || hello->kind != HELLO_FIRST;
    if (memcmp(hello->job, terms->job, FABRIC_JOB_BYTES) != 0)
        return HELLO_JOB_OTHER;
    if (hello->mode != terms->mode)
        return HELLO_MODE_OTHER;
    if (to->role != self->role || to->node != self->node ||
        (is_known && to->incarnation != self->incarnation))
        return HELLO_NOT_FOR_US;
    return HELLO_OK;
}

static void hash(const uint8_t encoded[HELLO_BYTES], uint8_t sum[HELLO_HASH_BYTES])
{
    crypto_generichash(sum, HELLO_HASH_BYTES, encoded, HELLO_BYTES, NULL, 0);
}
