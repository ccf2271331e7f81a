/* vk_tid.c - see vk_tid.h. */
#include "mpi-layer/lower/vk_tid.h"

#include "mpi-layer/lower/vk.h"

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

long vk_gettid(void)
{
    return vk_is_own_process() ? thread_self()->vtid : raw0(SYS_gettid);
}
