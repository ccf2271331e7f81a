/*
 * vk_lease.h - a rank whose node's lease is over changes nothing any more: on other nodes the program may
 * have gone on from a line. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_LEASE_H
#define BELAY_MPI_LAYER_LOWER_VK_LEASE_H

#include <stdint.h>
#include <time.h>

#include "mpi-layer/lower/vk.h"

/* As vk_lease_check(), for functions of the lower half that write to files of the application. */
void vk_lease_check_lower(void);
/* Say so, and end the process. */
_Noreturn void vk_lease_end(void);

/*
 * Before each system call that changes a file or a name, or writes to any descriptor. In any process
 * of the rank's, with either FS. The coarse clock is 4 ms behind at most, and costs no instruction that
 * waits; the agent ends the ranks long before the lease is over.
 */
static inline void vk_lease_check(void)
{
    const struct control *control = GATE->control;
    uint64_t until_ns = control ? __atomic_load_n(&control->lease_until_ns, __ATOMIC_RELAXED) : 0;
    int64_t now[2];
    if (__builtin_expect(until_ns == 0, 1))
        return;
    GATE->kernel_clock_gettime(CLOCK_MONOTONIC_COARSE, now);
    if (__builtin_expect((uint64_t)now[0] * 1000000000u + (uint64_t)now[1] >= until_ns, 0))
        vk_lease_end();
}

#endif
