/*
 * vk_postponed.h - signals that have met the virtual kernel, and come again when the thread has left it.
 * Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_POSTPONED_H
#define BELAY_MPI_LAYER_LOWER_VK_POSTPONED_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A signal has met the virtual kernel: true if it is to come again when the thread has left that / let
 * all such come again: all signals are blocked then, *mask is what was before / ... where they are blocked
 * already.
 */
bool vk_postpone(int signal, const void *info, const void *ucontext);
void vk_postponed_send(uint64_t *mask);
void vk_postponed_send_blocked(void);

#endif
