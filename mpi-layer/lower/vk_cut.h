/*
 * vk_cut.h - what a signal that has met a waiting call does to it. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_CUT_H
#define BELAY_MPI_LAYER_LOWER_VK_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/lower/gate.h"

/*
 * After CONTROL_SIGNAL, before its handler returns: what it has interrupted goes on. `counts`: the
 * thread's when it came.
 */
void vk_cut_interrupted(void *ucontext, struct handler_counts counts);
/* The kernel restarts a call that this signal has met, though the application's handler may not want it. */
void vk_cut_note_restart(const void *ucontext);
/* Before a handler of the application runs: what its signal has met ends. */
void vk_cut_handled(bool restarts, void *ucontext);
/* Is the thread just behind a call whose result vk_wait_ended() has to see first? */
bool vk_cut_has_result(const void *ucontext);
/* Which way patched transfers take, GATE->transfer_entry. */
void vk_cut_choose_entry(void);

/* In belay-vdso.so, found by the launcher: __vdso_belay_wait..., __vdso_belay_transfer... */
extern struct vk_wait_label {
    uint64_t entry, ready, syscall, over, resume;
    uint64_t transfer, transfer_syscall;
} vk_wait_label;

#endif
