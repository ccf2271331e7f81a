/*
 * vk_unkept.h - what the application makes in the kernel, lines do not keep, and no descriptor may show at a
 * line: one line on standard error for each kind. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_UNKEPT_H
#define BELAY_MPI_LAYER_LOWER_VK_UNKEPT_H

enum vk_unkept { VK_UNKEPT_QUEUE, VK_UNKEPT_KEY, VK_UNKEPT_LEASE, VK_UNKEPT_KINDS };

/* The call has this result; a call that has failed has made nothing. */
void vk_unkept_tell(enum vk_unkept kind, long result);

#endif
