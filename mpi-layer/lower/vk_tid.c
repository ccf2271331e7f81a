/* vk_tid.c - see vk_tid.h. */
#include "mpi-layer/lower/vk_tid.h"

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_own_signal.h"

void vk_threads_lock(void)
{
    while (__atomic_exchange_n(&VK->threads_lock, 1, __ATOMIC_ACQUIRE))
        raw0(SYS_sched_yield);
}

void vk_threads_unlock(void)
{
    __atomic_store_n(&VK->threads_lock, 0, __ATOMIC_RELEASE);
}

struct thread *vk_thread_by_vtid(uint32_t vtid)
{
    for (struct thread *t = VK->threads; t; t = t->next)
        if (t->life == THREAD_LIVE && t->vtid == vtid)
            return t;
    return vtid == VK->pid && VK->threads->life == THREAD_LIVE ? VK->threads : NULL;
}

/* After a restart a new kernel id may equal an old thread's virtual one: then another number is taken. */
uint32_t vk_thread_new_vtid(uint32_t tid)
{
    uint32_t vtid = tid;
    while (vk_thread_by_vtid(vtid))
        vtid = vtid + 1 < (1u << 22) ? vtid + 1 : 2;
    return vtid;
}

/*
 * The main thread's is the process's, which is new after a restart. It is known by the one that it had, too:
 * the C library keeps that. (If another thread still has this number from an earlier launch, it is not for
 * two.)
 */
long vk_gettid(void)
{
    const struct thread *self = thread_self();
    if (!vk_is_own_process())
        return raw0(SYS_gettid);
    bool is_main = self == VK->threads && vk_thread_by_vtid(VK->pid) == self;
    return is_main ? VK->pid : self->vtid;
}

long vk_kernel_tid(long vtid)
{
    const struct thread *thread = vtid > 0 ? vk_thread_by_vtid((uint32_t)vtid) : NULL;
    return thread ? (long)thread->tid : vtid;
}

void vk_pid_leave(uint32_t pid)
{
    uint32_t last = VK->former_pid_count < VK_FORMER_PIDS ? VK->former_pid_count++ : VK_FORMER_PIDS - 1;
    VK->former_pids[last] = pid;
}

long vk_pid_of(long pid, long tid)
{
    for (uint32_t i = 0; i < VK->former_pid_count; i++)
        if (pid == (long)VK->former_pids[i] && vk_is_own_process() && vk_thread_by_vtid((uint32_t)tid))
            return (long)VK->pid;
    return pid;
}

long vk_tgkill_tid(long pid, long tid)
{
    return pid == (long)VK->pid ? vk_kernel_tid(tid) : tid;
}

long vk_tgkill(long pid, long tid, long signal)
{
    pid = vk_pid_of(pid, tid);
    bool is_own = pid == (long)VK->pid;
    tid = vk_tgkill_tid(pid, tid);
    return signal == CONTROL_SIGNAL && is_own ? vk_own_signal_send(pid, tid)
                                              : raw3(SYS_tgkill, pid, tid, signal);
}
