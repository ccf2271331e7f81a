/*
 * vk_refuse.h - calls that a restart could not repeat, among harmless ones. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_REFUSE_H
#define BELAY_MPI_LAYER_LOWER_VK_REFUSE_H

#include <stdint.h>

long vk_refuse(long nr, long a, long b, long c, long d, long e);
long vk_arch_prctl(long code, uint64_t addr);

#endif
