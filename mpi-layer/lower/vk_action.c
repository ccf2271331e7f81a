/*
 * vk_action.c - what the application has set for each signal.
 *
 * The kernel's table of actions has our wrapper in place of each handler, and our own handlers for
 * CONTROL_SIGNAL and SIGSYS, which are never blocked. What the application believes is recorded: its actions
 * in struct vk, and of its masks the two bits that the kernel does not get (struct thread, hidden_mask). Its
 * children get all of it: CONTROL_SIGNAL is theirs from fork() on, SIGSYS from the exec on, since the filter
 * needs it until then.
 */
#include "mpi-layer/lower/vk_action.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_mask.h"
#include "mpi-layer/lower/vk_own_signal.h"
#include "mpi-layer/lower/vk_width.h"

#ifndef SA_RESTORER
#define SA_RESTORER 0x04000000
#endif

#define EXPOSE_TAGBITS 0x800
/* The kernel forgets the others, by which a program finds out what it knows. */
#define KNOWN_FLAGS                                                                                          \
    ((uint32_t)(SA_NOCLDSTOP | SA_NOCLDWAIT | SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER |            \
                SA_RESETHAND | SA_RESTORER | EXPOSE_TAGBITS))

/* In belay-vdso.so, found by the launcher. */
uint64_t vk_wrap_address, vk_signal_address, vk_restorer_address, vk_resignal_address;
uint64_t vk_start_address, vk_wrap_inside_address;

/*
 * What the kernel is to hold for an action of the application. An alternate stack may be too small for a
 * frame of ours, not to speak of a line: vk_signal.c looks.
 */
static struct vk_action kernel_action(const struct vk_action *action)
{
    struct vk_action k = *action;
    k.mask &= ~VK_OWN_SIGNALS;
    if (vk_action_is_handler(k.handler)) {
        k.handler = vk_wrap_address;
        k.flags |= SA_SIGINFO; /* else the kernel gives none */
    }
    if (vk_action_is_handler(k.handler) && (k.flags & SA_ONSTACK) && vk_is_rank())
        k.mask |= VK_SIGNAL_BIT(CONTROL_SIGNAL);
    return k;
}

long vk_action_set(long signal, const struct vk_action *action)
{
    struct vk_action k = kernel_action(action);
    return raw4(SYS_rt_sigaction, signal, &k, 0, 8);
}

bool vk_action_is_before_handler(uint64_t rip)
{
    return rip >= vk_wrap_address && rip < vk_wrap_inside_address;
}

void vk_action_renew(int signal)
{
    vk_action_set(signal, &VK->actions[signal]);
}

static void record_action(long signal, const struct vk_action *action)
{
    VK->actions[signal] = *action;
    if (vk_action_is_handler(action->handler))
        VK->handlers[signal] = action->handler;
    __atomic_or_fetch(&VK->actions_set, VK_SIGNAL_BIT(signal), __ATOMIC_RELAXED);
}

/* A vfork()ed child shares our memory: only its own kernel's table may change. */
static long set_childs_action(long signal, const struct vk_action *action)
{
    if (signal == SIGSYS)
        return 0;
    return vk_action_is_handler(action->handler) ? -EPERM : vk_action_set(signal, action);
}

static long change_action(long signal, const struct vk_action *action)
{
    struct vk_action before = VK->actions[signal];
    if (!vk_is_own_process())
        return set_childs_action(signal, action);
    /* The record comes first: the new handler may be called before this returns. */
    record_action(signal, action);
    long result = vk_own_signal_is(signal) ? 0 : vk_action_set(signal, action);
    if (result < 0)
        VK->actions[signal] = before;
    return result;
}

long vk_sigaction(long signal, const uint64_t *action, uint64_t *old, long set_bytes)
{
    if (signal < 1 || signal > 64 || set_bytes != 8)
        return -EINVAL;
    if ((action && !vk_is_pointer((long)action)) || (old && !vk_is_pointer((long)old)))
        return -EFAULT;
    struct vk_action before = VK->actions[signal];
    if (action) {
        struct vk_action wanted = {action[0], action[1] & KNOWN_FLAGS, action[2], action[3] & ~VK_UNMASKABLE};
        long result = change_action(signal, &wanted);
        if (result < 0)
            return result;
    }
    if (old) {
        old[0] = before.handler;
        old[1] = before.flags;
        old[2] = before.restorer;
        old[3] = before.mask;
    }
    return 0;
}

void vk_actions_adopt(void)
{
    struct vk_action action;
    uint64_t mask = 0;
    raw4(SYS_rt_sigprocmask, SIG_BLOCK, 0, &mask, 8);
    thread_self()->hidden_mask = mask & VK_OWN_SIGNALS;
    for (int signal = 1; signal <= 64; signal++)
        if (raw4(SYS_rt_sigaction, signal, 0, &action, 8) == 0 && action.handler == (uint64_t)SIG_IGN)
            VK->actions[signal].handler = (uint64_t)SIG_IGN;
}

void vk_actions_restore(void)
{
    for (int signal = 1; signal <= 64; signal++) {
        bool is_set = VK->actions_set & VK_SIGNAL_BIT(signal);
        if (!vk_own_signal_is(signal) && (is_set || VK->actions[signal].handler == (uint64_t)SIG_IGN))
            vk_action_set(signal, &VK->actions[signal]);
    }
}

void vk_actions_become_child(uint64_t *mask)
{
    const uint64_t bit = VK_SIGNAL_BIT(CONTROL_SIGNAL);
    vk_action_set(CONTROL_SIGNAL, &VK->actions[CONTROL_SIGNAL]);
    *mask |= thread_self()->hidden_mask & bit;
    thread_self()->hidden_mask &= ~bit;
}

/* What an exec keeps of an action is whether it ignores. */
static void keep_ignored(long signal)
{
    const struct vk_action ignore = {.handler = (uint64_t)SIG_IGN};
    struct vk_action now;
    raw4(SYS_rt_sigaction, signal, 0, &now, 8);
    if (vk_action_is_handler(now.handler) && VK->actions[signal].handler == (uint64_t)SIG_IGN)
        raw4(SYS_rt_sigaction, signal, &ignore, 0, 8);
}

uint64_t vk_actions_leave(void)
{
    keep_ignored(CONTROL_SIGNAL);
    keep_ignored(SIGSYS);
    return *vk_mask_hidden();
}
