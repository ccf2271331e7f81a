/*
 * vk_own_signal.h - the two signals that Belay uses, CONTROL_SIGNAL and SIGSYS ("ours"). The application may
 * use them as well. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_OWN_SIGNAL_H
#define BELAY_MPI_LAYER_LOWER_VK_OWN_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/lower/gate.h"

#define VK_SIGNAL_BIT(s) (1ul << ((s)-1))
/* Both, which are never blocked in the kernel for a rank. In its children CONTROL_SIGNAL is like others. */
#define VK_OWN_SIGNALS (VK_SIGNAL_BIT(31 /* SIGSYS */) | VK_SIGNAL_BIT(CONTROL_SIGNAL))
/* The signals that cannot be blocked: SIGKILL and SIGSTOP. */
#define VK_UNMASKABLE (VK_SIGNAL_BIT(9) | VK_SIGNAL_BIT(19))

/* Those of the two that the calling process must not block in the kernel. */
uint64_t vk_own_signals(void);
bool vk_own_signal_is(long signal);

/*
 * A CONTROL_SIGNAL that the application has caused carries a mark in its siginfo_t.
 *   send        the application sends CONTROL_SIGNAL: with the mark. Returns 0 or -errno
 *   forward     a SIGSYS that is not the filter's goes to the calling thread as a marked CONTROL_SIGNAL
 *   is_foreign  has the application caused this signal?
 *   mark        a signal of the application's is to be sent again: by which signal; marks the siginfo_t of
 * ours unmark      which signal was meant by one that has come; its siginfo_t becomes that of the meant one
 */
long vk_own_signal_send(long pid, long tid);
void vk_own_signal_forward(const void *sigsys_info);
bool vk_own_signal_is_foreign(const void *info);
int vk_own_signal_mark(void *info);
int vk_own_signal_unmark(void *info);
/* End the process by a signal, as if it had no handler. */
void vk_own_signal_end_by(int signal);

#endif
