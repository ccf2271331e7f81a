/*
 * bytes.h - numbers as they stand on the wire: little-endian, at any address.
 */
#ifndef BELAY_COMMON_SECURE_BYTES_H
#define BELAY_COMMON_SECURE_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

/* Write a number of 4 or 8 bytes, or so many bytes. All return the end of what they wrote. */
static inline uint8_t *bytes_put_u32(uint8_t *to, uint32_t number)
{
    number = htole32(number);
    memcpy(to, &number, sizeof number);
    return to + sizeof number;
}

static inline uint8_t *bytes_put_u64(uint8_t *to, uint64_t number)
{
    number = htole64(number);
    memcpy(to, &number, sizeof number);
    return to + sizeof number;
}

static inline uint8_t *bytes_put(uint8_t *to, const void *from, size_t count)
{
    memcpy(to, from, count);
    return to + count;
}

/* Read one and move *from behind it. */
static inline uint32_t bytes_get_u32(const uint8_t **from)
{
    uint32_t number;
    memcpy(&number, *from, sizeof number);
    *from += sizeof number;
    return le32toh(number);
}

static inline uint64_t bytes_get_u64(const uint8_t **from)
{
    uint64_t number;
    memcpy(&number, *from, sizeof number);
    *from += sizeof number;
    return le64toh(number);
}

static inline void bytes_get(const uint8_t **from, void *to, size_t count)
{
    memcpy(to, *from, count);
    *from += count;
}

#endif
