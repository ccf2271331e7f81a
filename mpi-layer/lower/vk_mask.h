/*
 * vk_mask.h - masks of signals: the application's, and the kernel's, which never holds the signals that are
 * ours. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_MASK_H
#define BELAY_MPI_LAYER_LOWER_VK_MASK_H

#include <stdint.h>

#include "mpi-layer/lower/gate.h"

/*
 * What the calling thread believes to block of our signals. A vfork()ed child shares its parent's thread
 * block, but not its mask.
 */
uint64_t *vk_mask_hidden(void);
/* rt_sigprocmask in a trap: `mask` is what the thread goes on with. */
long vk_mask_in_trap(uint64_t *mask, long how, const uint64_t *set, uint64_t *old, long set_bytes);
/*
 * The same as a wait: what is pending comes at the call itself, which must not be inside the virtual kernel,
 * or it would come in another order. Before the call, and with its result.
 */
void vk_mask_begins(struct wait *wait);
void vk_mask_ended(const struct wait *wait, long result);
/* rt_sigpending. In a trap more is blocked than the application's `mask`: what it asks for is within that. */
long vk_mask_pending(uint64_t mask, uint64_t *set, long set_bytes);
/* The kernel's mask, of all signals but SIGSYS, whatever the application believes; the one before. */
uint64_t vk_mask_set(uint64_t mask);

#endif
