/*
 * fnv1a.h - checksums against accidental damage, not against attackers: FNV-1a with 64 bits (Fowler, Noll,
 * Vo; RFC 9923).
 */
#ifndef BELAY_COMMON_UTIL_FNV1A_H
#define BELAY_COMMON_UTIL_FNV1A_H

#include <stddef.h>
#include <stdint.h>

#define FNV1A_START 0xcbf29ce484222325ull

/* The checksum `sum` (FNV1A_START at first), continued over `count` bytes. */
static inline uint64_t fnv1a(uint64_t sum, const void *from, size_t count)
{
    const uint8_t *bytes = from;
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ bytes[i]) * 0x100000001b3ull;
    return sum;
}

#endif
