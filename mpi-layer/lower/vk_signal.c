/*
 * vk_signal.c - the application's signal handlers and masks.
 *
 * The kernel's table of actions has our wrapper in place of each handler, and our own handlers for
 * CONTROL_SIGNAL and SIGSYS, which are never blocked. What the application believes is recorded: its actions
 * in struct vk, and of its masks the two bits that the kernel does not get (struct thread, hidden_mask). Its
 * children get all of it: CONTROL_SIGNAL is theirs from fork() on, SIGSYS from the exec on, since the filter
 * needs it until then.
 */
#include "mpi-layer/lower/vk_signal.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <ucontext.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_postponed.h"
#include "mpi-layer/lower/vk_timer.h"
#include "mpi-layer/lower/vk_wait.h"
#include "mpi-layer/lower/vk_width.h"

#ifndef SA_RESTORER
#define SA_RESTORER 0x04000000
#endif

#define EXPOSE_TAGBITS 0x800
/* The kernel forgets the others, by which a program finds out what it knows. */
#define KNOWN_FLAGS                                                                                          \
    ((uint32_t)(SA_NOCLDSTOP | SA_NOCLDWAIT | SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER |            \
                SA_RESETHAND | SA_RESTORER | EXPOSE_TAGBITS))
#define STACK_FOR_LINE (32ul << 10)
#define UNMASKABLE (VK_SIGNAL_BIT(SIGKILL) | VK_SIGNAL_BIT(SIGSTOP))

/* In belay-vdso.so, found by the launcher. */
uint64_t vk_wrap_address, vk_signal_address, vk_restorer_address, vk_resignal_address;
uint64_t vk_start_address;

uint64_t vk_own_signals(void)
{
    return vk_is_rank() ? VK_OWN_SIGNALS : VK_SIGNAL_BIT(SIGSYS);
}

static bool is_own(long signal)
{
    return vk_own_signals() & VK_SIGNAL_BIT(signal);
}

static bool is_handler(uint64_t handler)
{
    return handler != (uint64_t)SIG_DFL && handler != (uint64_t)SIG_IGN;
}

/*
 * What the kernel is to hold for an action of the application. An alternate stack may be too small for a
 * frame of ours, not to speak of a line: let_ours_in() looks.
 */
static struct vk_action kernel_action(const struct vk_action *action)
{
    struct vk_action k = *action;
    k.mask &= ~VK_OWN_SIGNALS;
    if (is_handler(k.handler)) {
        k.handler = vk_wrap_address;
        k.flags |= SA_SIGINFO; /* else the kernel gives none */
    }
    if (is_handler(k.handler) && (k.flags & SA_ONSTACK) && vk_is_rank())
        k.mask |= VK_SIGNAL_BIT(CONTROL_SIGNAL);
    return k;
}

static long set_action(long signal, const struct vk_action *action)
{
    struct vk_action k = kernel_action(action);
    return raw4(SYS_rt_sigaction, signal, &k, 0, 8);
}

void vk_signals_renew(int signal)
{
    set_action(signal, &VK->actions[signal]);
}

static void record_action(long signal, const struct vk_action *action)
{
    VK->actions[signal] = *action;
    if (is_handler(action->handler))
        VK->handlers[signal] = action->handler;
    __atomic_or_fetch(&VK->actions_set, VK_SIGNAL_BIT(signal), __ATOMIC_RELAXED);
}

/* A vfork()ed child shares our memory: only its own kernel's table may change. */
static long set_childs_action(long signal, const struct vk_action *action)
{
    if (signal == SIGSYS)
        return 0;
    return is_handler(action->handler) ? -EPERM : set_action(signal, action);
}

static long change_action(long signal, const struct vk_action *action)
{
    struct vk_action before = VK->actions[signal];
    if (!vk_is_own_process())
        return set_childs_action(signal, action);
    /* The record comes first: the new handler may be called before this returns. */
    record_action(signal, action);
    long result = is_own(signal) ? 0 : set_action(signal, action);
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
        struct vk_action wanted = {action[0], action[1] & KNOWN_FLAGS, action[2], action[3] & ~UNMASKABLE};
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

void vk_signals_adopt(void)
{
    struct vk_action action;
    uint64_t mask = 0;
    raw4(SYS_rt_sigprocmask, SIG_BLOCK, 0, &mask, 8);
    thread_self()->hidden_mask = mask & VK_OWN_SIGNALS;
    for (int signal = 1; signal <= 64; signal++)
        if (raw4(SYS_rt_sigaction, signal, 0, &action, 8) == 0 && action.handler == (uint64_t)SIG_IGN)
            VK->actions[signal].handler = (uint64_t)SIG_IGN;
}

void vk_signals_restore(void)
{
    for (int signal = 1; signal <= 64; signal++) {
        bool is_set = VK->actions_set & VK_SIGNAL_BIT(signal);
        if (!is_own(signal) && (is_set || VK->actions[signal].handler == (uint64_t)SIG_IGN))
            set_action(signal, &VK->actions[signal]);
    }
}

/* ---- masks ---- */

/* A vfork()ed child shares its parent's thread block, but not its mask. */
static uint64_t *hidden_mask(void)
{
    struct thread *self = thread_self();
    uint32_t pid = (uint32_t)raw0(SYS_getpid);
    if (pid == VK->pid)
        return &self->hidden_mask;
    if (self->vfork_pid != pid) {
        self->vfork_pid = pid;
        self->vfork_mask = self->hidden_mask;
    }
    return &self->vfork_mask;
}

static uint64_t changed(uint64_t mask, long how, uint64_t set)
{
    return how == SIG_BLOCK ? mask | set : how == SIG_UNBLOCK ? mask & ~set : set;
}

void vk_sigprocmask_begins(struct wait *wait)
{
    const struct thread *self = thread_self();
    const uint64_t *set = (const uint64_t *)wait->call[1];
    uint64_t own = vk_own_signals(), asked = set ? *set & own : 0;
    long how = wait->call[0];
    bool is_hiding = asked || self->hidden_mask || self->vfork_mask;
    uint64_t *hidden = is_hiding ? hidden_mask() : NULL;
    wait->hidden_mask = hidden ? *hidden : 0;
    wait->has_end = hidden || wait->call[2];
    if (set && how != SIG_UNBLOCK) {
        wait->mask = *set & ~own;
        wait->call[1] = (long)&wait->mask;
    }
    if (hidden && set) /* first: a signal may come with the kernel's answer */
        *hidden = changed(wait->hidden_mask, how, asked);
}

void vk_sigprocmask_ended(const struct wait *wait, long result)
{
    uint64_t own = vk_own_signals(), *old = (uint64_t *)wait->call[2];
    if (result < 0 && wait->has_end && *hidden_mask() != wait->hidden_mask)
        *hidden_mask() = wait->hidden_mask;
    if (result == 0 && old) /* in our own handlers they are blocked */
        *old = (*old & ~own) | (wait->hidden_mask & own);
}

long vk_sigprocmask_in_trap(uint64_t *mask, long how, const uint64_t *set, uint64_t *old, long set_bytes)
{
    uint64_t own = vk_own_signals(), *hidden = hidden_mask();
    uint64_t before = (*mask & ~own) | (*hidden & own);
    if (set_bytes != 8 || (set && (how < SIG_BLOCK || how > SIG_SETMASK)))
        return -EINVAL;
    if (set) {
        uint64_t wanted = *set & ~UNMASKABLE;
        *hidden = changed(*hidden, how, wanted & own);
        *mask = changed(*mask, how, how == SIG_UNBLOCK ? wanted : wanted & ~own);
    }
    if (old)
        *old = before;
    return 0;
}

long vk_sigpending(uint64_t mask, uint64_t *set, long set_bytes)
{
    long result = raw2(SYS_rt_sigpending, set, set_bytes);
    if (result == 0 && set_bytes == 8)
        *set &= mask & ~vk_own_signals();
    return result;
}

uint64_t vk_signals_set_mask(uint64_t mask)
{
    uint64_t before = 0;
    mask &= ~VK_SIGNAL_BIT(SIGSYS);
    raw4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, &before, 8);
    return before;
}

long vk_signalfd(long nr, long fd, const uint64_t *set, long set_bytes, long flags)
{
    uint64_t wanted;
    if (set && set_bytes == 8) {
        wanted = *set & ~vk_own_signals();
        set = &wanted;
    }
    return raw4(nr, fd, set, set_bytes, flags);
}

/* ---- children ---- */

void vk_signals_become_child(uint64_t *mask)
{
    const uint64_t bit = VK_SIGNAL_BIT(CONTROL_SIGNAL);
    set_action(CONTROL_SIGNAL, &VK->actions[CONTROL_SIGNAL]);
    *mask |= thread_self()->hidden_mask & bit;
    thread_self()->hidden_mask &= ~bit;
}

/* What an exec keeps of an action is whether it ignores. */
static void keep_ignored(long signal)
{
    const struct vk_action ignore = {.handler = (uint64_t)SIG_IGN};
    struct vk_action now;
    raw4(SYS_rt_sigaction, signal, 0, &now, 8);
    if (is_handler(now.handler) && VK->actions[signal].handler == (uint64_t)SIG_IGN)
        raw4(SYS_rt_sigaction, signal, &ignore, 0, 8);
}

uint64_t vk_signals_leave(void)
{
    keep_ignored(CONTROL_SIGNAL);
    keep_ignored(SIGSYS);
    return *hidden_mask();
}

/* ---- our signals, sent by the application ---- */

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

bool vk_signals_are_foreign(const void *info)
{
    return ((const int *)info)[INFO_CODE] != CODE_TKILL || is_marked(info);
}

long vk_signals_send(long pid, long tid)
{
    int info[INFO_WORDS] = {
        [INFO_ERRNO] = MARK | CONTROL_SIGNAL, [INFO_CODE] = CODE_QUEUE, [INFO_PID] = (int)VK->pid};
    return raw4(SYS_rt_tgsigqueueinfo, pid, tid, CONTROL_SIGNAL, info);
}

int vk_signals_mark(void *info)
{
    int *words = info, signal = words[INFO_SIGNAL];
    if (!is_own(signal))
        return signal;
    words[INFO_ERRNO] = MARK | signal;
    return CONTROL_SIGNAL;
}

static void end_by(int signal)
{
    const struct vk_action end = {.handler = (uint64_t)SIG_DFL};
    raw4(SYS_rt_sigaction, signal, &end, 0, 8);
    raw3(SYS_tgkill, raw0(SYS_getpid), raw0(SYS_gettid), signal);
}

void vk_signals_forward(const void *sigsys_info)
{
    int info[INFO_WORDS];
    if (!vk_is_rank() || !vk_is_own_process()) {
        if (VK->actions[SIGSYS].handler == (uint64_t)SIG_DFL)
            end_by(SIGSYS);
        return;
    }
    for (int i = 0; i < INFO_WORDS; i++)
        info[i] = ((const int *)sigsys_info)[i];
    info[INFO_ERRNO] = MARK | SIGSYS;
    raw4(SYS_rt_tgsigqueueinfo, VK->pid, thread_self()->tid, CONTROL_SIGNAL, info);
}

int vk_signals_deliver(void *info, void *context)
{
    int *words = info, signal = CONTROL_SIGNAL;
    if (is_marked(words)) {
        signal = words[INFO_ERRNO] & ~MARK_BITS;
        words[INFO_ERRNO] = 0;
        if (signal == CONTROL_SIGNAL)
            words[INFO_CODE] = CODE_TKILL;
    }
    words[INFO_SIGNAL] = signal;
    if (thread_self()->hidden_mask & VK_SIGNAL_BIT(signal))
        return 0;
    if (VK->actions[signal].handler == (uint64_t)SIG_DFL)
        end_by(signal);
    if (!is_handler(VK->actions[signal].handler))
        return 0;
    vk_wait_note_restart(context);
    return signal;
}

/* Ours blocks all others, an application's handler only those that it names. */
static void set_mask_inside(const struct vk_action *action, int signal, const ucontext_t *context)
{
    uint64_t mask = *(const uint64_t *)(const void *)&context->uc_sigmask | (action->mask & ~VK_OWN_SIGNALS);
    raw4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
    if (!(action->flags & SA_NODEFER))
        thread_self()->hidden_mask |= VK_SIGNAL_BIT(signal);
}

/* ---- handlers ---- */

/*
 * The kernel has forgotten the handler when it delivered the signal. It is told again, since the process may
 * be another one than that: a line may have come in between.
 */
static void reset_action(int signal)
{
    VK->actions[signal].handler = (uint64_t)SIG_DFL;
    if (!is_own(signal))
        set_action(signal, &VK->actions[signal]);
}

/*
 * A handler that is not postponed may leave the virtual kernel's frames behind by a jump. That is seen by the
 * stack (vk_thread.c). The kernel's own word on the alternate stack is not to be had while a stack with
 * SS_AUTODISARM is in use.
 */
static void note_frame(struct thread *self, const ucontext_t *context)
{
    const stack_t *stack = &context->uc_stack;
    uint64_t frame = (uint64_t)context, start = (uint64_t)stack->ss_sp;
    bool is_on_it = frame - start < stack->ss_size;
    self->handler_frame = frame;
    self->handler_stack[0] = start;
    self->handler_stack[1] = is_on_it ? stack->ss_size : 0;
}

/* On an alternate stack without room our signal has to wait for the handler's end. */
static void let_ours_in(const ucontext_t *context)
{
    const uint64_t ours = VK_SIGNAL_BIT(CONTROL_SIGNAL);
    uint64_t room = (uint64_t)context - (uint64_t)context->uc_stack.ss_sp;
    if (room >= context->uc_stack.ss_size || room >= STACK_FOR_LINE)
        raw4(SYS_rt_sigprocmask, SIG_UNBLOCK, &ours, 0, 8);
}

uint64_t vk_handler_begins(int signal, void *info, void *context, uint32_t was_in_vk)
{
    struct thread *self = thread_self();
    struct vk_action action = VK->actions[signal];
    if (was_in_vk && vk_postpone(signal, info, context))
        return 0;
    self->hidden_mask |= action.mask & VK_OWN_SIGNALS;
    if (is_own(signal))
        set_mask_inside(&action, signal, context);
    else if ((action.flags & SA_ONSTACK) && vk_is_rank())
        let_ours_in(context);
    if (was_in_vk)
        note_frame(self, context);
    vk_wait_handled(action.flags & SA_RESTART, context);
    if (action.flags & SA_SIGINFO)
        vk_timer_rename(info);
    if ((action.flags & SA_RESETHAND) && is_handler(action.handler))
        reset_action(signal);
    /* The signal was delivered before the action was changed: by another thread, or by a handler on top. */
    return is_handler(action.handler) ? action.handler : VK->handlers[signal];
}
