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

#endif
