/*
 * vk_tid.h - the list of threads by their ids: those that the application knows, and the kernel's.
 * Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_TID_H
#define BELAY_MPI_LAYER_LOWER_VK_TID_H

#include <stdint.h>

#include "mpi-layer/lower/gate.h"

/* Lock the list of threads, VK->threads. */
void vk_threads_lock(void);
void vk_threads_unlock(void);
/* By the id that the application knows; NULL: there is none. */
struct thread *vk_thread_by_vtid(uint32_t vtid);
uint32_t vk_thread_new_vtid(uint32_t tid);
long vk_gettid(void);
long vk_tgkill(long pid, long tid, long signal);

/*
 * A restart may come between getpid(2) and tgkill(2), which raise(3) and pthread_cancel(3) call one behind
 * the other. leave: the process has another id from now on. of: the process that is meant by a process id,
 * which may be a former one, together with a thread's id.
 */
void vk_pid_leave(uint32_t pid);
long vk_pid_of(long pid, long tid);
long vk_tgkill_tid(long pid, long tid); /* the kernel's id, for that call */
/* The kernel's id of a thread named by the one that the application knows; others are left alone. */
long vk_kernel_tid(long vtid);

#endif
