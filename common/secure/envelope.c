/* envelope.c - see envelope.h. */
#include "common/secure/envelope.h"

#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <string.h>

_Static_assert(crypto_box_SECRETKEYBYTES == 32 && crypto_box_PUBLICKEYBYTES == 32 &&
                   crypto_box_SEALBYTES == 48,
               "envelope.h");

/* Exactly so many bytes. */
static bool read_hex(const char *text, uint8_t *bytes, size_t count)
{
    size_t got = 0;
    return strlen(text) == 2 * count &&
           sodium_hex2bin(bytes, count, text, 2 * count, NULL, &got, NULL) == 0 && got == count;
}

int envelope_make_pair(struct envelope_pair *pair, char address[ENVELOPE_ADDRESS_BYTES],
                       struct belay_error *err)
{
    if (sodium_init() < 0 || crypto_box_keypair(pair->open, pair->secret) != 0)
        return belay_error_set(err, EIO, "libsodium does not work here");
    sodium_bin2hex(address, ENVELOPE_ADDRESS_BYTES, pair->open, sizeof pair->open);
    return 0;
}

int envelope_seal(const char *address, const char *plain, char text[ENVELOPE_TEXT_BYTES],
                  struct belay_error *err)
{
    uint8_t to[crypto_box_PUBLICKEYBYTES], secret[ENVELOPE_SECRET_BYTES],
        box[sizeof secret + crypto_box_SEALBYTES];
    bool is_fit = sodium_init() >= 0 && read_hex(address, to, sizeof to) &&
                  read_hex(plain, secret, sizeof secret) &&
                  crypto_box_seal(box, secret, sizeof secret, to) == 0;
    if (is_fit)
        sodium_bin2hex(text, ENVELOPE_TEXT_BYTES, box, sizeof box);
    sodium_memzero(secret, sizeof secret);
    return is_fit ? 0 : belay_error_set(err, EPROTO, "a key cannot be sealed for another host");
}

int envelope_open(const struct envelope_pair *pair, const char *text, uint8_t secret[ENVELOPE_SECRET_BYTES],
                  struct belay_error *err)
{
    uint8_t box[ENVELOPE_SECRET_BYTES + crypto_box_SEALBYTES];
    if (read_hex(text, box, sizeof box) &&
        crypto_box_seal_open(secret, box, sizeof box, pair->open, pair->secret) == 0)
        return 0;
    return belay_error_set(err, EPROTO, "the key of the job's relays has not come as it was sent");
}
