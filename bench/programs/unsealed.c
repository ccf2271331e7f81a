/*
 * unsealed.c - stands in for common/secure/seal.c in `fabric_plain` alone: nothing is authenticated or
 * encrypted.
 *
 * It is linked into that benchmark and nowhere else: an agent has no such mode.
 */
#include <stdlib.h>
#include <string.h>

#include "common/secure/seal.h"

struct seal {
    enum fabric_mode mode;
};

int seal_prepare(struct belay_error *err)
{
    (void)err;
    return 0;
}

struct seal *seal_create(enum fabric_mode mode, const uint8_t key[SEAL_KEY_BYTES])
{
    struct seal *seal = malloc(sizeof *seal);
    (void)key;
    if (seal)
        seal->mode = mode;
    return seal;
}

void seal_destroy(struct seal *seal)
{
    free(seal);
}

void seal_close(const struct seal *seal, enum seal_space space, uint64_t counter, uint8_t *text, size_t clear,
                size_t count, uint8_t mac[SEAL_MAC_BYTES])
{
    (void)seal, (void)space, (void)counter, (void)text, (void)clear, (void)count;
    memset(mac, 0, SEAL_MAC_BYTES);
}

int seal_open(const struct seal *seal, enum seal_space space, uint64_t counter, uint8_t *text, size_t clear,
              size_t count, const uint8_t mac[SEAL_MAC_BYTES])
{
    (void)seal, (void)space, (void)counter, (void)text, (void)clear, (void)count, (void)mac;
    return 0;
}
