/*
 * fnv1a.h - sums that find damage, and tell contents apart, where nobody means harm: FNV-1a with 64 bits
 * (Fowler, Noll, Vo; RFC 9923).
 */
#ifndef BELAY_COMMON_UTIL_FNV1A_H
#define BELAY_COMMON_UTIL_FNV1A_H

#include <stddef.h>
#include <stdint.h>

#define FNV1A_START 0xcbf29ce484222325ull

/* Go on with `sum`, FNV1A_START at first, over so many bytes. */
static inline uint64_t fnv1a(uint64_t sum, const void *from, size_t count)
{
    const uint8_t *bytes = from;
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ bytes[i]) * 0x100000001b3ull;
    return sum;
}

#endif
