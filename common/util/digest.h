/*
 * digest.h - a number of 256 bits that stands for content, such as the root of an image
 * (common/image/root.h).
 *
 * Digests of several things are added, modulo 2^256: the sum stands for all of them, in any order, and has
 * the size of one. All zeros: none, not known.
 */
#ifndef BELAY_COMMON_UTIL_DIGEST_H
#define BELAY_COMMON_UTIL_DIGEST_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define DIGEST_BYTES 32u

struct digest {
    uint64_t words[4]; /* the least significant first */
};

static inline bool digest_is_known(const struct digest *digest)
{
    return digest->words[0] || digest->words[1] || digest->words[2] || digest->words[3];
}

static inline bool digest_is_equal(const struct digest *a, const struct digest *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static inline struct digest digest_sum(const struct digest *a, const struct digest *b)
{
    struct digest sum;
    unsigned __int128 carry = 0;
    for (int i = 0; i < 4; i++) {
        carry += (unsigned __int128)a->words[i] + b->words[i];
        sum.words[i] = (uint64_t)carry;
        carry >>= 64;
    }
    return sum;
}

#endif
