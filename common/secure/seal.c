#include "common/secure/seal.h"

#include <errno.h>
#include <sodium.h>

#include "common/secure/bytes.h"

struct seal {
    crypto_aead_aes256gcm_state key; /* expanded; aligned as libsodium wants it */
    enum fabric_mode mode;
};

static void make_nonce(enum seal_space space, uint64_t counter, uint8_t *nonce);

int seal_prepare(struct belay_error *err)
{
    if (sodium_init() < 0)
        return belay_error_set(err, ENOSYS, "libsodium cannot be initialized");
    if (!crypto_aead_aes256gcm_is_available())
        return belay_error_set(
            err, ENOTSUP,
            "this processor has no AES and PCLMUL instructions, which agents on several nodes "
            "need to authenticate one another");
    return 0;
}

struct seal *seal_create(enum fabric_mode mode, const uint8_t key[SEAL_KEY_BYTES])
{
    struct seal *seal = aligned_alloc(_Alignof(struct seal), sizeof *seal);
    if (!seal)
        return NULL;
    seal->mode = mode;
    crypto_aead_aes256gcm_beforenm(&seal->key, key);
    return seal;
}

void seal_destroy(struct seal *seal)
{
    int code = errno;
    if (seal)
        sodium_memzero(seal, sizeof *seal);
    free(seal);
    errno = code;
}

void seal_close(const struct seal *seal, enum seal_space space, uint64_t counter, uint8_t *text, size_t clear,
                size_t count, uint8_t mac[SEAL_MAC_BYTES])
{
    uint8_t nonce[crypto_aead_aes256gcm_NPUBBYTES];
    size_t open = seal->mode == FABRIC_MODE_ENCRYPT ? clear : count;
    make_nonce(space, counter, nonce);
    crypto_aead_aes256gcm_encrypt_detached_afternm(text + open, mac, NULL, text + open, count - open, text,
                                                   open, NULL, nonce, &seal->key);
}

int seal_open(const struct seal *seal, enum seal_space space, uint64_t counter, uint8_t *text, size_t clear,
              size_t count, const uint8_t mac[SEAL_MAC_BYTES])
{
    uint8_t nonce[crypto_aead_aes256gcm_NPUBBYTES];
    size_t open = seal->mode == FABRIC_MODE_ENCRYPT ? clear : count;
    make_nonce(space, counter, nonce);
    return crypto_aead_aes256gcm_decrypt_detached_afternm(text + open, NULL, text + open, count - open, mac,
                                                          text, open, nonce, &seal->key);
}

static void make_nonce(enum seal_space space, uint64_t counter, uint8_t *nonce)
{
    bytes_put_u64(bytes_put_u32(nonce, space), counter);
}
