/* vk_signal.c - the application's signal handlers and masks. */
#include "mpi-layer/lower/vk.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

#ifndef SA_RESTORER
#define SA_RESTORER 0x04000000
#endif

/* In belay-vdso.so, found by the launcher. */
uint64_t vk_wrap_address, vk_signal_address, vk_restorer_address, vk_resignal_address;
uint64_t vk_start_address;

static bool is_own(long signal)
{
    return signal == SIGSYS || signal == CONTROL_SIGNAL;
}

static bool is_handler(uint64_t handler)
{
    return handler != (uint64_t)SIG_DFL && handler != (uint64_t)SIG_IGN;
}

/* What the kernel is to hold for an action of the application. */
static struct vk_action kernel_action(const struct vk_action *action)
{
    struct vk_action k = *action;
    k.mask &= ~VK_OWN_SIGNALS;
    if (is_handler(k.handler))
        k.handler = vk_wrap_address;
    return k;
}

static long set_action(long signal, const struct vk_action *action)
{
    struct vk_action k = kernel_action(action);
    return raw4(SYS_rt_sigaction, signal, &k, 0, 8);
}

long vk_sigaction(long signal, const uint64_t *action, uint64_t *old, long set_bytes)
{
    if (signal < 1 || signal > 64 || set_bytes != 8)
        return -EINVAL;
    if ((action && !vk_is_pointer((long)action)) || (old && !vk_is_pointer((long)old)))
        return -EFAULT;
    struct vk_action *record = &VK->actions[signal], before = *record;
    if (action) {
        struct vk_action wanted = {action[0], action[1], action[2], action[3]};
        if (is_own(signal)) {
            /* Accepted and remembered, but the kernel's stays ours. */
        } else if (!vk_is_own_process()) {
            /* A vforked child shares this memory: only its own kernel's table may change. */
            long result = is_handler(wanted.handler) ? -EPERM : set_action(signal, &wanted);
            if (result < 0)
                return result;
            action = NULL;
        } else {
            /* The record comes first: the new handler may be called before this returns. */
            *record = wanted;
            long result = set_action(signal, &wanted);
            if (result < 0) {
                *record = before;
                return result;
            }
        }
        if (action)
            *record = wanted;
    }
    if (old) {
        old[0] = before.handler;
        old[1] = before.flags;
        old[2] = before.restorer;
        old[3] = before.mask;
    }
    return 0;
}

void vk_signals_restore(void)
{
    for (int signal = 1; signal <= 64; signal++) {
        const struct vk_action *record = &VK->actions[signal];
        if (!is_own(signal) && (record->handler || record->flags))
            set_action(signal, record);
    }
}

long vk_sigprocmask(long how, const uint64_t *set, uint64_t *old, long set_bytes)
{
    uint64_t wanted;
    if (set && how != SIG_UNBLOCK) {
        wanted = *set & ~VK_OWN_SIGNALS;
        set = &wanted;
    }
    return raw4(SYS_rt_sigprocmask, how, set, old, set_bytes);
}
