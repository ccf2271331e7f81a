/*
 * vk_wait.h - calls that wait or transfer data: they go on after our signal (vk_wait.c, vk_cut.c).
 * Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_WAIT_H
#define BELAY_MPI_LAYER_LOWER_VK_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/lower/gate.h"

/* The three ways in, called by the page of code through the gate; registers as in gate.h. */
void vk_wait_prepare(struct wait *wait);
long vk_wait_ended(struct wait *wait, long result);
long vk_wait_resume(struct wait *wait, long result);
/* Its result is a descriptor of the application, if the call makes one. */
void vk_wait_note_fd(const struct wait *wait, long result);
/* Which way patched transfers take, GATE->transfer_entry. */
void vk_wait_choose_entry(void);

/*
 * After CONTROL_SIGNAL, before its handler returns: what it has interrupted goes on (vk_cut.c). `counts`: the
 * thread's when it came.
 */
void vk_wait_interrupted(void *ucontext, struct handler_counts counts);
/* The kernel restarts a call that this signal has met, though the application's handler may not want it. */
void vk_wait_note_restart(const void *ucontext);
/* Before a handler of the application runs: what its signal has met ends. */
void vk_wait_handled(bool restarts, void *ucontext);
/* Is the thread just behind a call whose result vk_wait_ended() has to see first? */
bool vk_wait_has_result(const void *ucontext);

/* In belay-vdso.so, found by the launcher: __vdso_belay_wait..., __vdso_belay_transfer... */
extern struct vk_wait_label {
    uint64_t entry, ready, syscall, over, resume;
    uint64_t transfer, transfer_syscall;
} vk_wait_label;
#define VK_SYSCALL_BYTES 2

#endif
