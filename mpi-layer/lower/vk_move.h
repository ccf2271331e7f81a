/*
 * vk_move.h - mappings that mremap() moves to another place. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_MOVE_H
#define BELAY_MPI_LAYER_LOWER_VK_MOVE_H

#include <stdint.h>

/*
 * Move what is mapped in a range, one mapping after the other; `flags` have MREMAP_MAYMOVE and MREMAP_FIXED.
 * A tracker has mappings apart that the kernel would merge, and the kernel (Linux 6.17) moves several in one
 * call only if none of them is tracked: else it stops half-way, and does not tell how far it came. Returns
 * `to`, or -errno: then all is where it was, and what was mapped at `to` may be gone.
 */
long vk_move(uint64_t old, uint64_t bytes, long flags, uint64_t to);

#endif
