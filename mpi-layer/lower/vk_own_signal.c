/* vk_own_signal.c - see vk_own_signal.h. */
#include "mpi-layer/lower/vk_own_signal.h"

#include <signal.h>

#include "mpi-layer/lower/vk.h"

uint64_t vk_own_signals(void)
{
    return vk_is_rank() ? VK_OWN_SIGNALS : VK_SIGNAL_BIT(SIGSYS);
}

bool vk_own_signal_is(long signal)
{
    return vk_own_signals() & VK_SIGNAL_BIT(signal);
}

/* Where siginfo_t has its words. A mark and the signal's number are in one that it does not need. */
enum { INFO_SIGNAL, INFO_ERRNO, INFO_CODE, INFO_PID = 4, INFO_WORDS = 32 };
#define MARK 0x62656c00
#define MARK_BITS (~0x7f)
#define CODE_QUEUE (-1)
#define CODE_TKILL (-6) /* ours have it; nobody may pretend it to another thread */

static bool is_marked(const int *info)
{
    return (info[INFO_ERRNO] & MARK_BITS) == MARK;
}

bool vk_own_signal_is_foreign(const void *info)
{
    return ((const int *)info)[INFO_CODE] != CODE_TKILL || is_marked(info);
}

long vk_own_signal_send(long pid, long tid)
{
    int info[INFO_WORDS] = {
        [INFO_ERRNO] = MARK | CONTROL_SIGNAL, [INFO_CODE] = CODE_QUEUE, [INFO_PID] = (int)VK->pid};
    return raw4(SYS_rt_tgsigqueueinfo, pid, tid, CONTROL_SIGNAL, info);
}

int vk_own_signal_mark(void *info)
{
    int *words = info, signal = words[INFO_SIGNAL];
    if (!vk_own_signal_is(signal))
        return signal;
    words[INFO_ERRNO] = MARK | signal;
    return CONTROL_SIGNAL;
}

void vk_own_signal_end_by(int signal)
{
    const struct vk_action end = {.handler = (uint64_t)SIG_DFL};
    raw4(SYS_rt_sigaction, signal, &end, 0, 8);
    raw3(SYS_tgkill, raw0(SYS_getpid), raw0(SYS_gettid), signal);
}

void vk_own_signal_forward(const void *sigsys_info)
{
    int info[INFO_WORDS];
    if (!vk_is_rank() || !vk_is_own_process()) {
        if (VK->actions[SIGSYS].handler == (uint64_t)SIG_DFL)
            vk_own_signal_end_by(SIGSYS);
        return;
    }
    for (int i = 0; i < INFO_WORDS; i++)
        info[i] = ((const int *)sigsys_info)[i];
    info[INFO_ERRNO] = MARK | SIGSYS;
    raw4(SYS_rt_tgsigqueueinfo, VK->pid, thread_self()->tid, CONTROL_SIGNAL, info);
}

int vk_own_signal_unmark(void *info)
{
    int *words = info, signal = CONTROL_SIGNAL;
    if (is_marked(words)) {
        signal = words[INFO_ERRNO] & ~MARK_BITS;
        words[INFO_ERRNO] = 0;
        if (signal == CONTROL_SIGNAL)
            words[INFO_CODE] = CODE_TKILL;
    }
    words[INFO_SIGNAL] = signal;
    return signal;
}
