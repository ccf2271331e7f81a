/*
 * vk_signal.h - signals that have come. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_SIGNAL_H
#define BELAY_MPI_LAYER_LOWER_VK_SIGNAL_H

#include <stdint.h>

/* What is to come of one of ours: the signal, if it has a handler, which is to be called now; 0: nothing. */
int vk_signal_deliver(void *info, void *ucontext);
/* The wrapper of handlers asks which to call (0: none now); what the signal has met is told to vk_cut.c. */
uint64_t vk_handler_begins(int signal, void *info, void *ucontext, uint32_t was_in_vk);

/* siginfo_t of a signal that has come: ids in it become the application's. */
void vk_signal_rename(void *info);

#endif
