/*
 * vk_patch.h - known call sites in the code of a C library, rewritten to jump to the virtual kernel.
 * Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_PATCH_H
#define BELAY_MPI_LAYER_LOWER_VK_PATCH_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Rewrite the known call sites in mapped code of a C library, which nobody executes yet. False: it
 * cannot be made executable again, and has to be mapped anew.
 */
bool vk_patch(uint8_t *code, uint64_t bytes, long prot);
/* Does code make system calls that are served, by instructions of its own? */
bool vk_makes_calls(const uint8_t *code, uint64_t bytes);

#endif
