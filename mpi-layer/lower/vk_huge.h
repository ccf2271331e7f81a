/*
 * vk_huge.h - huge pages that were set aside. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_HUGE_H
#define BELAY_MPI_LAYER_LOWER_VK_HUGE_H

#include <stdbool.h>
#include <stdint.h>

/* The size in bytes of a mapping's pages; 0: they are ordinary ones. */
uint64_t vk_huge_bytes(long flags, long fd);
/* A mapping of a file of them that a restart could not put back; then one line has said so. */
bool vk_huge_is_refused(long prot, long flags, long fd);
long vk_huge_segment_flags(long flags);

#endif
