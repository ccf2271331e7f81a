/*
 * vk_cut.h - what becomes of a waiting call when a signal comes during it. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_CUT_H
#define BELAY_MPI_LAYER_LOWER_VK_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/lower/gate.h"

/*
 * After CONTROL_SIGNAL, before its handler returns: the call that it has interrupted is to go on. `counts`:
 * the thread's counts of handlers when the signal came.
 */
void vk_cut_interrupted(void *ucontext, struct handler_counts counts);
/* The kernel restarts the interrupted call after this signal, though a handler of the application may end it.
 */
void vk_cut_note_restart(const void *ucontext);
/* Before a handler of the application runs: the call that its signal has interrupted ends. */
void vk_cut_handled(bool restarts, void *ucontext);
/* Has the signal met a call that waits for a child? */
bool vk_cut_awaits_child(const void *ucontext);

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
