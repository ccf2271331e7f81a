/* vk_mask.c - see vk_mask.h. */
#include "mpi-layer/lower/vk_mask.h"

#include <errno.h>
#include <signal.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_own_signal.h"

uint64_t *vk_mask_hidden(void)
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

void vk_mask_begins(struct wait *wait)
{
    const struct thread *self = thread_self();
    const uint64_t *set = (const uint64_t *)wait->call[1];
    uint64_t own = vk_own_signals(), asked = set ? *set & own : 0;
    long how = wait->call[0];
    bool is_hiding = asked || self->hidden_mask || self->vfork_mask;
    uint64_t *hidden = is_hiding ? vk_mask_hidden() : NULL;
    wait->hidden_mask = hidden ? *hidden : 0;
    wait->has_end = hidden || wait->call[2];
    if (set && how != SIG_UNBLOCK) {
        wait->mask = *set & ~own;
        wait->call[1] = (long)&wait->mask;
    }
    if (hidden && set) /* first: a signal may come with the kernel's answer */
        *hidden = changed(wait->hidden_mask, how, asked);
}

void vk_mask_ended(const struct wait *wait, long result)
{
    uint64_t own = vk_own_signals(), *old = (uint64_t *)wait->call[2];
    if (result < 0 && wait->has_end && *vk_mask_hidden() != wait->hidden_mask)
        *vk_mask_hidden() = wait->hidden_mask;
    if (result == 0 && old) /* in our own handlers they are blocked */
        *old = (*old & ~own) | (wait->hidden_mask & own);
}

long vk_mask_in_trap(uint64_t *mask, long how, const uint64_t *set, uint64_t *old, long set_bytes)
{
    uint64_t own = vk_own_signals(), *hidden = vk_mask_hidden();
    uint64_t before = (*mask & ~own) | (*hidden & own);
    if (set_bytes != 8 || (set && (how < SIG_BLOCK || how > SIG_SETMASK)))
        return -EINVAL;
    if (set) {
        uint64_t wanted = *set & ~VK_UNMASKABLE;
        *hidden = changed(*hidden, how, wanted & own);
        *mask = changed(*mask, how, how == SIG_UNBLOCK ? wanted : wanted & ~own);
    }
    if (old)
        *old = before;
    return 0;
}

long vk_mask_pending(uint64_t mask, uint64_t *set, long set_bytes)
{
    long result = raw2(SYS_rt_sigpending, set, set_bytes);
    if (result == 0 && set_bytes == 8)
        *set &= mask & ~vk_own_signals();
    return result;
}

uint64_t vk_mask_set(uint64_t mask)
{
    uint64_t before = 0;
    mask &= ~VK_SIGNAL_BIT(SIGSYS);
    raw4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, &before, 8);
    return before;
}
