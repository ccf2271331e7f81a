/*
 * vk_lock.h - locked memory: mlock and its like. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_LOCK_H
#define BELAY_MPI_LAYER_LOWER_VK_LOCK_H

#include <stdbool.h>
#include <stdint.h>

long vk_lock_syscall(long nr, long a, long b, long c);
/* mlockall(MCL_FUTURE): flags for a new mapping; or, if it was made without, its address or -errno. */
long vk_lock_flags(void);
long vk_lock_mapped(long at, uint64_t bytes);
/* Of a mapping of the image. */
bool vk_lock_is_on(uint64_t address);
/* A forked child has no locks. */
void vk_lock_forget(void);
/* After a restart: false: the limit does not allow it. */
bool vk_lock_again(uint64_t start, uint64_t bytes, bool is_on_fault);
bool vk_lock_all_again(void);

#endif
