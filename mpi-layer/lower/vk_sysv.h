/*
 * vk_sysv.h - objects of System V: memory segments, semaphores, message queues.
 *
 * The program gets the kernel's ids. If a restart has made an object again, the object has another id, so ids
 * are translated in every call. The rank notes the objects that it knows for the agent, which keeps them with
 * the line.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_SYSV_H
#define BELAY_MPI_LAYER_LOWER_VK_SYSV_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/lower/gate.h"

/* shmget, shmctl, shmat, and the calls of the other kinds that do not wait; vk_wait.c serves the others. */
bool vk_sysv_is_call(long nr);
long vk_sysv_syscall(long nr, long a, long b, long c, long d);

/* Is it one of those that wait: semop, semtimedop, msgsnd, msgrcv? */
bool vk_sysv_is_wait(long nr);
/* The kernel's id of the object that such a call names. */
long vk_sysv_wait_id(long nr, long id);
/* Does a call change what is undone when the process ends (SEM_UNDO)? Then vk_sysv_done() has to follow. */
bool vk_sysv_has_undo(const struct wait *wait);
void vk_sysv_done(const struct wait *wait);

/* Before the program runs: the kernel's id of an object in this launch. False: no memory. */
bool vk_sysv_set_kernel_id(uint32_t kind, int32_t id, int32_t kernel_id);

/* Forget objects that have been removed. All threads stand still. */
void vk_sysv_forget_gone(void);

/* A restart: tell the kernel again what is to be undone when the process ends. False: it refuses. */
bool vk_sysv_restore_undo(void);

#endif
