/*
 * vk_own_signal.h - the two signals that are ours, CONTROL_SIGNAL and SIGSYS, and may be the application's as
 * well. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_OWN_SIGNAL_H
#define BELAY_MPI_LAYER_LOWER_VK_OWN_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/lower/gate.h"

#define VK_SIGNAL_BIT(s) (1ul << ((s)-1))
/* Ours, which the kernel never blocks for a rank. In its children CONTROL_SIGNAL is like others. */
#define VK_OWN_SIGNALS (VK_SIGNAL_BIT(31 /* SIGSYS */) | VK_SIGNAL_BIT(CONTROL_SIGNAL))
/* What nobody can block: SIGKILL and SIGSTOP. */
#define VK_UNMASKABLE (VK_SIGNAL_BIT(9) | VK_SIGNAL_BIT(19))

/* Ours that the application must not block, here. */
uint64_t vk_own_signals(void);
bool vk_own_signal_is(long signal);

/*
 * The application may use our signals as well. Send it CONTROL_SIGNAL in its own name (0 or -errno) / let the
 * calling thread get a SIGSYS that is not the filter's, by CONTROL_SIGNAL, too. Is one that has come the
 * application's?
 */
long vk_own_signal_send(long pid, long tid);
void vk_own_signal_forward(const void *sigsys_info);
bool vk_own_signal_is_foreign(const void *info);
/* By which signal that of a siginfo_t is to be sent: one of ours, which is the application's, is marked. */
int vk_own_signal_mark(void *info);
/* The signal that was meant by one that has come; the siginfo_t becomes as that one's. */
int vk_own_signal_unmark(void *info);
/* The process ends by a signal, as without a handler. */
void vk_own_signal_end_by(int signal);

#endif
