/*
 * fence.h - until when the ranks of a job may run on a node: a page of memory that the node's agent writes.
 * Its keeper kills the ranks when the time has come, whatever has become of the agent, and threads of the
 * agent look at it before they change a file. Ranks have the same time on their control pages (control.h).
 *
 * Times are those of CLOCK_BOOTTIME on the node, in ns: the clock goes on while the machine is suspended.
 * They are never compared with another node's. The job's clock, by which changes of files are ordered, is an
 * estimate.
 */
#ifndef BELAY_COMMON_WIRE_FENCE_H
#define BELAY_COMMON_WIRE_FENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define FENCE_BYTES 4096u

struct fence {
    uint64_t until_ns; /* 0: no lease is needed */
    int64_t ahead_ns;  /* of the job's clock, which is the arbiter's: what to add to this node's */
};

static inline uint64_t fence_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Has the time come at which ranks must not run any more? */
static inline bool fence_is_over(const struct fence *fence)
{
    uint64_t until_ns = __atomic_load_n(&fence->until_ns, __ATOMIC_ACQUIRE);
    return until_ns != 0 && fence_now_ns() >= until_ns;
}

#endif
