/*
 * seal.h - what makes bytes on the wire trustworthy: AES-256-GCM (NIST SP 800-38D) under keys that two agents
 * derive from the job's key for one session and one direction.
 *
 * In the mode FABRIC_MODE_AUTHENTICATE the bytes are sent as they are with a MAC (GMAC); in
 * FABRIC_MODE_ENCRYPT the body is encrypted as well. A nonce is (space, counter). No two different texts may
 * be sealed with the same nonce by the same seal: the callers count, and a seal lives as long as one session.
 * Pure: no sockets, no state but the key. A seal may be used by several threads at a time.
 */
#ifndef BELAY_COMMON_SECURE_SEAL_H
#define BELAY_COMMON_SECURE_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"
#include "common/secure/identity.h"

#define SEAL_MAC_BYTES 16u
#define SEAL_KEY_BYTES 32u

/* Counters of different spaces are independent. */
enum seal_space { SEAL_SPACE_NONE = 0, SEAL_SPACE_ORDERED, SEAL_SPACE_BEAT, SEAL_SPACE_CHUNK };

struct seal;

/* Must have succeeded once before anything else here. -1 with err: this processor lacks AES instructions. */
int seal_prepare(struct belay_error *err);

/* NULL with errno. The caller may wipe `key`; the seal wipes its own at the end. NULL may be destroyed. */
struct seal *seal_create(enum fabric_mode mode, const uint8_t key[SEAL_KEY_BYTES]);
void seal_destroy(struct seal *seal);

/*
 * Seal text[count], whose first `clear` bytes are never encrypted, in place; the MAC covers all of it.
 */
void seal_close(const struct seal *seal, enum seal_space space, uint64_t counter, uint8_t *text, size_t clear,
                size_t count, uint8_t mac[SEAL_MAC_BYTES]);

/* The reverse, in place. -1: it is not what the peer sealed, and nothing of text may be used. */
int seal_open(const struct seal *seal, enum seal_space space, uint64_t counter, uint8_t *text, size_t clear,
              size_t count, const uint8_t mac[SEAL_MAC_BYTES]);

#endif
