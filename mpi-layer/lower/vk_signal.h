/*
 * vk_signal.h - signals: handlers, masks, and the two signals that are ours and may be the application's
 * as well. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_SIGNAL_H
#define BELAY_MPI_LAYER_LOWER_VK_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/lower/gate.h"

#define VK_SIGNAL_BIT(s) (1ul << ((s)-1))
/* Ours, which the kernel never blocks for a rank. In its children CONTROL_SIGNAL is like others. */
#define VK_OWN_SIGNALS (VK_SIGNAL_BIT(31 /* SIGSYS */) | VK_SIGNAL_BIT(CONTROL_SIGNAL))

long vk_sigaction(long signal, const uint64_t *action, uint64_t *old, long set_bytes);
/* rt_sigprocmask in a trap: `mask` is what the thread goes on with. */
long vk_sigprocmask_in_trap(uint64_t *mask, long how, const uint64_t *set, uint64_t *old, long set_bytes);

/*
 * The same as a wait: what is pending comes at the call itself, which must not be inside the virtual kernel,
 * or it would come in another order. Before the call, and with its result.
 */
void vk_sigprocmask_begins(struct wait *wait);
void vk_sigprocmask_ended(const struct wait *wait, long result);
/* In a trap more is blocked than the application's `mask`: what it asks for is within that. */
long vk_sigpending(uint64_t mask, uint64_t *set, long set_bytes);
/* The kernel's mask, of all signals but SIGSYS, whatever the application believes; the one before. */
uint64_t vk_signals_set_mask(uint64_t mask);
long vk_signalfd(long nr, long fd, const uint64_t *set, long set_bytes, long flags);
/* Ours that the application must not block, here. */
uint64_t vk_own_signals(void);
/* Note which signals the process has been started with as ignored, and which of ours as blocked. */
void vk_signals_adopt(void);
/* Restart: set every action again that the application has set or was started with. */
void vk_signals_restore(void);
/* A forked child's CONTROL_SIGNAL is as the application believes it to be; `mask` is what it goes on with. */
void vk_signals_become_child(uint64_t *mask);
/* Our own handlers: of the filter, and of CONTROL_SIGNAL in a rank. All signals are blocked. */
void vk_signals_install(void);

/*
 * Before execve(): the new program finds our signals, too, ignored as the application had them; which of them
 * are to be blocked. If it fails, vk_signals_install() puts our handlers back.
 */
uint64_t vk_signals_leave(void);

/*
 * The application may use our signals as well. Send it CONTROL_SIGNAL in its own name (0 or -errno) / let the
 * calling thread get a SIGSYS that is not the filter's, by CONTROL_SIGNAL, too. Is one that has come the
 * application's?
 */
long vk_signals_send(long pid, long tid);
void vk_signals_forward(const void *sigsys_info);
bool vk_signals_are_foreign(const void *info);
/* By which signal that of a siginfo_t is to be sent: one of ours, which is the application's, is marked. */
int vk_signals_mark(void *info);
/* What is to come of one: the signal, if it has a handler, which is to be called now; 0: nothing. */
int vk_signals_deliver(void *info, void *ucontext);
/* The wrapper of handlers asks which to call (0: none now); what the signal has met is told to vk_cut.c. */
uint64_t vk_handler_begins(int signal, void *info, void *ucontext, uint32_t was_in_vk);
/* Tell the kernel an action of the application again. */
void vk_signals_renew(int signal);
/* Of functions in the page of code (vdso.S), found by the launcher. */
extern uint64_t vk_wrap_address, vk_signal_address, vk_restorer_address, vk_resignal_address;
extern uint64_t vk_start_address; /* of __vdso_belay_start */

#endif
