/*
 * vk_thread.h - threads: their ids, how they park, and what the kernel knows of them (vk_thread.c,
 * vk_pending.c). Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_THREAD_H
#define BELAY_MPI_LAYER_LOWER_VK_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/lower/gate.h"

/* NULL: no memory. Free it when its thread has ended. */
struct thread *vk_thread_create(void);
void vk_thread_free(struct thread *thread);
/* By the id that the application knows; NULL: there is none. */
struct thread *vk_thread_by_vtid(uint32_t vtid);
uint32_t vk_thread_new_vtid(uint32_t tid);
long vk_gettid(void);
long vk_tgkill(long pid, long tid, long signal);

/*
 * A restart may come between getpid(2) and tgkill(2), which raise(3) and pthread_cancel(3) call one behind
 * the other. The process has another id from now on: the one that is meant by an id and a thread's.
 */
void vk_pid_leave(uint32_t pid);
long vk_pid_of(long pid, long tid);
long vk_tgkill_tid(long pid, long tid); /* the kernel's id, for that call */
/* The kernel's id of a thread named by the one that the application knows; others are left alone. */
long vk_kernel_tid(long vtid);
/* Code that is at the same address after a restart: a parked frame may return to it. */
bool vk_is_saved_code(uint64_t rip);
/* Mark the robust mutexes of an ending thread, as the kernel would (which knows another id). */
void vk_thread_leave_mutexes(const struct thread *thread);
int vk_park_threads(void);
void vk_release_threads(void);
int vk_signal_is_safe(int signal, void *info, void *ucontext);
void vk_threads_lock(void);
void vk_threads_unlock(void);
void vk_park_event(void);

/*
 * What the kernel knows of the calling thread (vk_pending.c): all signals are blocked. NULL, or why it cannot
 * be noted.
 */
const char *vk_thread_note(void);
/* Restart: forget what the new process was started with. */
void vk_pending_drop(void);
void vk_thread_restore(struct thread *self);

#endif
