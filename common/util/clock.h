/*
 * clock.h - times to measure waits by: of this machine, not comparable with another one's.
 */
#ifndef BELAY_COMMON_UTIL_CLOCK_H
#define BELAY_COMMON_UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC in ns. */
static inline uint64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* CLOCK_MONOTONIC in ms; signed, so that differences can be compared with 0. */
static inline int64_t clock_now_ms(void)
{
    return (int64_t)(clock_now_ns() / 1000000);
}

#endif
