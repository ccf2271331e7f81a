/*
 * fuzz.h - bytes that were sound once, damaged in a way that can be repeated; for unit tests.
 *
 * BELAY_FUZZ_SEED (a number, usually 1) chooses another sequence, BELAY_FUZZ_ROUNDS multiplies the rounds. A
 * test prints its seed, so that a failure can be had again.
 */
#ifndef BELAY_COMMON_TEST_FUZZ_H
#define BELAY_COMMON_TEST_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fuzz {
    uint64_t state;
};

static inline uint64_t fuzz_setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static inline struct fuzz fuzz_begin(const char *test)
{
    uint64_t seed = fuzz_setting("BELAY_FUZZ_SEED", 1);
    printf("# %s: BELAY_FUZZ_SEED=%llu\n", test, (unsigned long long)seed);
    fflush(stdout);
    return (struct fuzz){.state = seed * 0x9e3779b97f4a7c15ull + 1};
}

static inline unsigned fuzz_rounds(unsigned usual)
{
    return usual * (unsigned)fuzz_setting("BELAY_FUZZ_ROUNDS", 1);
}

/* SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014). */
static inline uint64_t fuzz_next(struct fuzz *fuzz)
{
    uint64_t z = fuzz->state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static inline size_t fuzz_below(struct fuzz *fuzz, size_t limit)
{
    return limit ? (size_t)(fuzz_next(fuzz) % limit) : 0;
}

/* A number at which counts and sizes go wrong, of some width. */
static inline uint64_t fuzz_edge(struct fuzz *fuzz)
{
    static const uint64_t edges[] = {0,          1,          0x7f,       0x80,       0xff,
                                     0xfff,      0x1000,     0x7fffffff, 0x80000000, 0xffffffff,
                                     1ull << 33, 1ull << 47, 1ull << 62, 1ull << 63, UINT64_MAX};
    return edges[fuzz_below(fuzz, sizeof edges / sizeof edges[0])] + fuzz_below(fuzz, 3) - 1;
}

static inline void fuzz_damage_once(struct fuzz *fuzz, uint8_t *bytes, size_t *count, size_t room)
{
    static const size_t widths[] = {1, 2, 4, 8};
    size_t at = fuzz_below(fuzz, *count), width = widths[fuzz_below(fuzz, 4)];
    uint64_t edge = fuzz_edge(fuzz);
    switch (fuzz_below(fuzz, 8)) {
    case 0:
    case 1:
        bytes[at] ^= (uint8_t)(1u << fuzz_below(fuzz, 8));
        break;
    case 2:
        bytes[at] = (uint8_t)fuzz_next(fuzz);
        break;
    case 3:
    case 4: /* a field of a struct, most often at its place */
        at -= fuzz_below(fuzz, 4) ? at % width : 0;
        if (at + width <= *count)
            memcpy(bytes + at, &edge, width);
        break;
    case 5: /* cut */
        *count = at;
        break;
    case 6: { /* a piece again, elsewhere */
        size_t from = fuzz_below(fuzz, *count), length = fuzz_below(fuzz, *count - from) % 64;
        size_t space = *count - at;
        memmove(bytes + at, bytes + from, length < space ? length : space);
        break;
    }
    default: /* something in between */
        if (*count + width > room)
            break;
        memmove(bytes + at + width, bytes + at, *count - at);
        memcpy(bytes + at, &edge, width);
        *count += width;
    }
}

/* Damage bytes[*count], of which there may be up to `room`, in one place or some. */
static inline void fuzz_damage(struct fuzz *fuzz, uint8_t *bytes, size_t *count, size_t room)
{
    for (size_t times = 1 + fuzz_below(fuzz, 4); times > 0 && *count > 0; times--)
        fuzz_damage_once(fuzz, bytes, count, room);
}

#endif
