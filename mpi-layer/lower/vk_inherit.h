/*
 * vk_inherit.h - mutexes with priority inheritance after a restart. Freestanding, like vk.h.
 *
 * The word of such a mutex holds the id of the thread that has locked it, as the program knows it. The kernel
 * takes this for an id of its own, and after a restart it is none. So in restored processes the virtual
 * kernel serves these calls with the same word, and waits for it as for any other futex. What is lost is that
 * the owner runs with the priority of those who wait.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_INHERIT_H
#define BELAY_MPI_LAYER_LOWER_VK_INHERIT_H

#include <stdbool.h>
#include <stdint.h>

struct wait;

/* Are these calls served here? Not before the first restart: the kernel does it better. */
bool vk_inherit_is_served(void);

/* FUTEX_LOCK_PI and FUTEX_LOCK_PI2, which may wait. */
bool vk_inherit_is_wait(const struct wait *wait);
/* FUTEX_TRYLOCK_PI and FUTEX_UNLOCK_PI, which do not. Returns what the kernel would. */
bool vk_inherit_is_call(long nr, long operation);
long vk_inherit_syscall(uint32_t *word, long operation);

/*
 * One that waits: try to get the mutex. True: it is done, with this result; false: it is now in the word that
 * somebody waits, and *seen is to be waited for to change.
 */
bool vk_inherit_try(uint32_t *word, bool has_waited, uint32_t *seen, long *result);

#endif
