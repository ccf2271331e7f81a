/*
 * vk_postponed.c - signals of the application that come while a thread is in the virtual kernel.
 *
 * A handler may jump away and never come back, out of any call of ours, when a timer runs out. What it left
 * behind would be held for ever: the thread would count as inside, so that no line could be made, and a lock
 * might be held. So no handler runs on top of the virtual kernel: its signal is noted, and sent again with
 * the same siginfo_t where the thread has left it, in the page of code (vdso.S).
 *
 * Calls at which signals come by themselves, and several in the kernel's order, are made in that page in the
 * first place: kill, tgkill, as raise() makes it, and rt_sigprocmask (vk_wait.c).
 *
 * Not postponed are faults, which would come again at once, and what has met a call that the kernel restarts
 * behind the handler, which might wait for ever.
 */
#include "mpi-layer/lower/vk_postponed.h"

#include <signal.h>
#include <ucontext.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_action.h"
#include "mpi-layer/lower/vk_mask.h"
#include "mpi-layer/lower/vk_own_signal.h"

#define INFO_BYTES sizeof(thread_self()->postponed[0])
#define INFO_CODE 2 /* the word of siginfo_t */
#define FAULTS                                                                                               \
    (VK_SIGNAL_BIT(SIGILL) | VK_SIGNAL_BIT(SIGTRAP) | VK_SIGNAL_BIT(SIGBUS) | VK_SIGNAL_BIT(SIGFPE) |        \
     VK_SIGNAL_BIT(SIGSEGV))

static void copy(uint8_t *to, const uint8_t *from)
{
    for (size_t i = 0; i < INFO_BYTES; i++)
        to[i] = from[i];
}

static bool is_fault(int signal, const void *info)
{
    return (VK_SIGNAL_BIT(signal) & FAULTS) && ((const int *)info)[INFO_CODE] > 0;
}

/* The kernel leaves the address behind a call in rcx. */
static bool is_restarted(const ucontext_t *context)
{
    const greg_t *g = context->uc_mcontext.gregs;
    return g[REG_RIP] + VK_SYSCALL_BYTES == g[REG_RCX];
}

/*
 * The kernel makes the frames of several signals one on top of the other, and the last one comes here first:
 * what is below comes in front of it.
 */
static void insert(struct thread *self, const void *info)
{
    uint32_t at = self->postponed_count - self->postponed_above;
    for (uint32_t i = self->postponed_count++; i > at; i--)
        copy(self->postponed[i], self->postponed[i - 1]);
    copy(self->postponed[at], info);
}

bool vk_postpone(int signal, const void *info, const void *context)
{
    const greg_t *g = ((const ucontext_t *)context)->uc_mcontext.gregs;
    struct thread *self = thread_self();
    if (self->postponed_count == POSTPONED_MAX || is_fault(signal, info) || is_restarted(context))
        return false;
    insert(self, info);
    self->postponed_above = g[REG_RIP] == (greg_t)vk_wrap_address ? self->postponed_above + 1 : 0;
    self->pending |= THREAD_PENDING_HANDLERS;
    if (VK->actions[signal].flags & SA_RESETHAND) /* the kernel has forgotten it */
        vk_action_renew(signal);
    return true;
}

/* The kernel may have no room for the siginfo_t of a real-time signal; it has always room for the signal. */
static void send(const uint8_t *noted)
{
    uint8_t copied[INFO_BYTES] __attribute__((aligned(8)));
    int *info = (int *)(void *)copied;
    long pid = raw0(SYS_getpid), tid = raw0(SYS_gettid);
    copy(copied, noted);
    int signal = vk_own_signal_mark(info);
    if (raw4(SYS_rt_tgsigqueueinfo, pid, tid, signal, info) == 0)
        return;
    info[INFO_CODE] = 0; /* SI_USER */
    raw4(SYS_rt_tgsigqueueinfo, pid, tid, signal, info);
}

void vk_postponed_send_blocked(void)
{
    struct thread *self = thread_self();
    for (uint32_t i = 0; i < self->postponed_count; i++)
        send(self->postponed[i]);
    self->postponed_count = self->postponed_above = 0;
    self->pending &= ~(uint32_t)THREAD_PENDING_HANDLERS;
}

void vk_postponed_send(uint64_t *mask)
{
    *mask = vk_mask_set(~0ul);
    vk_postponed_send_blocked();
}
