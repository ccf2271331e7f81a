/*
 * vk_thread.h - threads: how they park, and what the kernel knows of them (vk_thread.c, vk_pending.c).
 * Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_THREAD_H
#define BELAY_MPI_LAYER_LOWER_VK_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/lower/gate.h"

/* NULL: no memory. Free it when its thread has ended. */
struct thread *vk_thread_create(void);
void vk_thread_free(struct thread *thread);
/* Mark the robust mutexes of an ending thread; the kernel would not, since it knows the thread by another id.
 */
void vk_thread_leave_mutexes(const struct thread *thread);
int vk_park_threads(void);
/* All parked threads note themselves: nobody runs who could send them a signal. Returns when they have. */
void vk_note_threads(void);
void vk_release_threads(void);
int vk_signal_is_safe(int signal, void *info, void *ucontext);
void vk_park_event(void);

/*
 * Note the state of the calling thread in the kernel (vk_pending.c), with all signals blocked. Returns NULL,
 * or why that cannot be done.
 */
const char *vk_thread_note(void);
/* Restart: forget what the new process was started with. */
void vk_pending_drop(void);
void vk_thread_restore(struct thread *self);

#endif
