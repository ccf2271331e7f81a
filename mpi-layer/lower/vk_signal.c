/*
 * vk_signal.c - signals that have come: what becomes of them, and how the application's handlers are called.
 */
#include "mpi-layer/lower/vk_signal.h"

#include <signal.h>
#include <stddef.h>
#include <ucontext.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_action.h"
#include "mpi-layer/lower/vk_cut.h"
#include "mpi-layer/lower/vk_id.h"
#include "mpi-layer/lower/vk_own_signal.h"
#include "mpi-layer/lower/vk_postponed.h"
#include "mpi-layer/lower/vk_timer.h"

#define STACK_FOR_LINE (32ul << 10)
#define INFO_UNUSED 3 /* a word of siginfo_t, behind si_code */
#define RENAMED 0x62656c

int vk_signal_deliver(void *info, void *context)
{
    int signal = vk_own_signal_unmark(info);
    if (thread_self()->hidden_mask & VK_SIGNAL_BIT(signal))
        return 0;
    if (VK->actions[signal].handler == (uint64_t)SIG_DFL)
        vk_own_signal_end_by(signal);
    if (!vk_action_is_handler(VK->actions[signal].handler))
        return 0;
    vk_cut_note_restart(context);
    return signal;
}

void vk_signal_rename(void *info)
{
    vk_timer_rename(info);
    vk_id_rename_sender(info);
}

/* Ours blocks all others, an application's handler only those that it names. */
static void set_mask_inside(const struct vk_action *action, int signal, const ucontext_t *context)
{
    uint64_t mask = *(const uint64_t *)(const void *)&context->uc_sigmask | (action->mask & ~VK_OWN_SIGNALS);
    raw4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
    if (!(action->flags & SA_NODEFER))
        thread_self()->hidden_mask |= VK_SIGNAL_BIT(signal);
}

/*
 * The kernel has forgotten the handler when it delivered the signal. It is told again, since the process may
 * be another one than that: a line may have come in between.
 */
static void reset_action(int signal)
{
    VK->actions[signal].handler = (uint64_t)SIG_DFL;
    if (!vk_own_signal_is(signal))
        vk_action_set(signal, &VK->actions[signal]);
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

/*
 * The kernel makes the frames of several signals one on top of the other: the handler below begins when this
 * one has ended, in a restarted process maybe, where the ids would be unknown. What is renamed already is
 * marked in a word that siginfo_t does not use.
 */
static void rename_below(const ucontext_t *context)
{
    const greg_t *g = context->uc_mcontext.gregs;
    int *info = (int *)g[REG_RSI];
    if (!vk_action_is_before_handler((uint64_t)g[REG_RIP]) || info[INFO_UNUSED] == RENAMED)
        return;
    vk_signal_rename(info);
    info[INFO_UNUSED] = RENAMED;
}

static void rename_once(int *info)
{
    if (info[INFO_UNUSED] != RENAMED)
        vk_signal_rename(info);
    else
        info[INFO_UNUSED] = 0;
}

uint64_t vk_handler_begins(int signal, void *info, void *context, uint32_t was_in_vk)
{
    struct thread *self = thread_self();
    struct vk_action action = VK->actions[signal];
    if (was_in_vk && vk_postpone(signal, info, context))
        return 0;
    self->hidden_mask |= action.mask & VK_OWN_SIGNALS;
    if (vk_own_signal_is(signal))
        set_mask_inside(&action, signal, context);
    else if ((action.flags & SA_ONSTACK) && vk_is_rank())
        let_ours_in(context);
    if (was_in_vk)
        note_frame(self, context);
    vk_cut_handled(action.flags & SA_RESTART, context);
    rename_below(context);
    rename_once(info);
    if ((action.flags & SA_RESETHAND) && vk_action_is_handler(action.handler))
        reset_action(signal);
    /* The signal was delivered before the action was changed: by another thread, or by a handler on top. */
    return vk_action_is_handler(action.handler) ? action.handler : VK->handlers[signal];
}
