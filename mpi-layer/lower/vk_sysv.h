/*
 * vk_sysv.h - objects of System V: memory segments, semaphores, message queues.
 *
 * The program keeps their ids, which are the kernel's. An object that had to be made again by a restart has
 * another one, so that ids are translated in every call. Those that the rank knows are noted for the agent,
 * which keeps the objects with the line.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_SYSV_H
#define BELAY_MPI_LAYER_LOWER_VK_SYSV_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/lower/gate.h"

/* shmget, shmctl, shmat, and the like of the other kinds; those that wait are vk_wait.c's. */
bool vk_sysv_is_call(long nr);
long vk_sysv_syscall(long nr, long a, long b, long c, long d);

/* Is it one of those that wait: semop, semtimedop, msgsnd, msgrcv? */
bool vk_sysv_is_wait(long nr);
/* The kernel's id of the object that such a call names. */
long vk_sysv_wait_id(long nr, long id);
/* Does it change what is undone when the process ends? Then its result has to be told. */
bool vk_sysv_has_undo(const struct wait *wait);
void vk_sysv_done(const struct wait *wait);

/* What the kernel's id is in this launch; before the program runs. False: no memory. */
bool vk_sysv_set_kernel_id(uint32_t kind, int32_t id, int32_t kernel_id);

/* Forget removed objects that are gone. All threads stand still. */
void vk_sysv_forget_gone(void);

/* A restart: what is to be undone at the process's end is so again. False: the kernel refuses. */
bool vk_sysv_restore_undo(void);

#endif
