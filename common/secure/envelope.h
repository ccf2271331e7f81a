/*
 * envelope.h - a secret for one process, through hands that may read it: sealed for a key pair that the
 * process has made for this (X25519; libsodium's sealed boxes). All texts are hexadecimal.
 */
#ifndef BELAY_COMMON_SECURE_ENVELOPE_H
#define BELAY_COMMON_SECURE_ENVELOPE_H

#include <stdint.h>

#include "common/util/error.h"

#define ENVELOPE_SECRET_BYTES 48u
#define ENVELOPE_ADDRESS_BYTES 65u /* with the end of the text, as the next */
#define ENVELOPE_TEXT_BYTES (2 * (ENVELOPE_SECRET_BYTES + 48u) + 1) /* 48: key and MAC of the box */

struct envelope_pair {
    uint8_t secret[32], open[32];
};

/* Make a pair, and say for whom envelopes are to be. Wipe it after use. Returns 0 or -1 with err. */
int envelope_make_pair(struct envelope_pair *pair, char address[ENVELOPE_ADDRESS_BYTES],
                       struct belay_error *err);
/* Returns 0, or -1 with err: one of the texts is none. */
int envelope_seal(const char *address, const char *plain, char text[ENVELOPE_TEXT_BYTES],
                  struct belay_error *err);
/* Returns 0, or -1 with err: it is not for this pair, or was changed. */
int envelope_open(const struct envelope_pair *pair, const char *text, uint8_t secret[ENVELOPE_SECRET_BYTES],
                  struct belay_error *err);

#endif
