/*
 * rng.h - the only source of chance in the simulation: one stream per seed (splitmix64).
 */
#ifndef BELAY_TESTS_SIM_RNG_H
#define BELAY_TESTS_SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t state;
};

/* A good mix of 64 bits; also the hash by which the modelled programs compute. */
static inline uint64_t rng_mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

static inline uint64_t rng_next(struct rng *rng)
{
    rng->state += 0x9e3779b97f4a7c15ull;
    return rng_mix(rng->state);
}

/* Uniform in [low, high]. */
static inline uint32_t rng_range(struct rng *rng, uint32_t low, uint32_t high)
{
    return low + (uint32_t)(((rng_next(rng) >> 32) * (high - low + 1ull)) >> 32);
}

static inline bool rng_chance(struct rng *rng, uint32_t per_mille)
{
    return rng_range(rng, 0, 999) < per_mille;
}

#endif
