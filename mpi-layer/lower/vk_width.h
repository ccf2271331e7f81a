/*
 * vk_width.h - arguments of system calls as wide as the kernel takes them, and whether pointers among them
 * can be followed. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_WIDTH_H
#define BELAY_MPI_LAYER_LOWER_VK_WIDTH_H

#include <stdbool.h>
#include <ucontext.h>

/* Arguments of a call as the kernel takes them: those that it takes as 32 bits are made so. */
void vk_narrow(long nr, long args[6]);
/* ... of the call that a trap has met. */
void vk_arguments(const greg_t *g, long nr, long args[6]);
/* False: a pointer that would be followed here leads nowhere; the kernel is to answer the call. */
bool vk_is_sound(long nr, const long args[6]);
bool vk_is_pointer(long address);

#endif
