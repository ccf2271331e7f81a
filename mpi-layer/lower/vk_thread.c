/*
 * vk_thread.c - the application's threads: blocks, parking.
 *
 * Parking. The leader of a line, at a safe point, calls vk_park_threads(): every other thread gets
 * CONTROL_SIGNAL and parks inside its handler (upper half: context_save, then a futex wait), or, if it is
 * in the virtual kernel at that moment, on its way out. Threads that start or end meanwhile count as
 * events, so the loop ends when every live thread has parked. What the kernel knows of a thread is noted when
 * all have parked (vk_note_threads()): a signal that one of them sent to a parked one before is not missed.
 */
#include "mpi-layer/lower/vk_thread.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <ucontext.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_action.h"
#include "mpi-layer/lower/vk_cut.h"
#include "mpi-layer/lower/vk_inherit.h"
#include "mpi-layer/lower/vk_own_signal.h"
#include "mpi-layer/lower/vk_signal.h"
#include "mpi-layer/lower/vk_tid.h"

void vk_park_event(void)
{
    __atomic_add_fetch(&VK->park_events, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&VK->park_wanted, __ATOMIC_SEQ_CST) || VK->threads->life == THREAD_ENDED)
        raw3(SYS_futex, &VK->park_events, FUTEX_WAKE_PRIVATE, 0x7fffffff);
}

/* A block for a new thread, reused or new, in life STARTING. NULL: out of memory. Locked inside. */
struct thread *vk_thread_create(void)
{
    vk_threads_lock();
    struct thread **link = &VK->threads, *thread = NULL;
    for (; *link; link = &(*link)->next)
        if ((*link)->life == THREAD_FREE) {
            thread = *link;
            break;
        }
    if (!thread && (thread = vk_alloc(sizeof *thread)))
        *link = thread;
    if (thread) {
        struct thread *next = thread->next;
        char *bytes = (char *)thread;
        for (size_t i = 0; i < sizeof *thread; i++)
            bytes[i] = 0;
        thread->next = next;
        thread->self = thread;
        thread->pid = VK->pid;
        thread->life = THREAD_STARTING;
        VK->live_threads++;
    }
    vk_threads_unlock();
    return thread;
}

void vk_thread_free(struct thread *thread)
{
    vk_threads_lock();
    thread->life = THREAD_FREE;
    VK->live_threads--;
    vk_threads_unlock();
    vk_park_event();
}

/* The layout of a robust list, and what happens to it, is the kernel's
 * (Documentation/locking/robust-futexes.rst). */
#define ROBUST_LIMIT 2048

/*
 * Who waits for one that inherits priorities is woken by the kernel itself when the thread ends, unless the
 * virtual kernel serves such mutexes (vk_inherit.h).
 */
static void leave_mutex(uint32_t *word, uint32_t vtid, bool inherits, bool is_pending)
{
    uint32_t value = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    while ((value & FUTEX_TID_MASK) == vtid)
        if (__atomic_compare_exchange_n(word, &value, (value & FUTEX_WAITERS) | FUTEX_OWNER_DIED, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            if ((value & FUTEX_WAITERS) && (!inherits || vk_inherit_is_served()))
                raw3(SYS_futex, word, FUTEX_WAKE, 1);
            return;
        }
    if (is_pending && !value && !inherits)
        raw3(SYS_futex, word, FUTEX_WAKE, 1);
}

/* A pointer of the list has a mark in its lowest bit: the mutex that it leads to inherits priorities. */
static void leave_listed(const struct thread *thread, uintptr_t listed, bool is_pending)
{
    const struct robust_list_head *head = (const struct robust_list_head *)thread->robust_list;
    uintptr_t entry = listed & ~1ul;
    leave_mutex((uint32_t *)(entry + (uintptr_t)head->futex_offset), thread->vtid, listed & 1, is_pending);
}

void vk_thread_leave_mutexes(const struct thread *thread)
{
    const struct robust_list_head *head = (const struct robust_list_head *)thread->robust_list;
    if (!head)
        return;
    uintptr_t pending = (uintptr_t)head->list_op_pending, listed = (uintptr_t)head->list.next;
    for (int i = 0; i < ROBUST_LIMIT && (listed & ~1ul) != (uintptr_t)&head->list; i++) {
        uintptr_t next = (uintptr_t)((const struct robust_list *)(listed & ~1ul))->next;
        if ((listed & ~1ul) != (pending & ~1ul))
            leave_listed(thread, listed, false);
        listed = next;
    }
    if (pending & ~1ul)
        leave_listed(thread, pending, true);
}

/* Threads that are not parked yet and are to be: signals those that have not been. */
static uint32_t signal_unparked(const struct thread *self)
{
    uint32_t unparked = 0;
    vk_threads_lock();
    for (struct thread *t = VK->threads; t; t = t->next) {
        if (t == self || t->life == THREAD_FREE || t->life == THREAD_ENDED || t->park == THREAD_PARKED)
            continue;
        unparked++;
        if (t->life == THREAD_LIVE && t->park == THREAD_RUNS) {
            t->park = THREAD_SIGNALLED;
            raw3(SYS_tgkill, t->pid, t->tid, CONTROL_SIGNAL);
        }
    }
    vk_threads_unlock();
    return unparked;
}

int vk_park_threads(void)
{
    const struct thread *self = thread_self();
    __atomic_store_n(&VK->park_wanted, 1, __ATOMIC_SEQ_CST);
    for (;;) {
        uint32_t seen = __atomic_load_n(&VK->park_events, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&VK->leader, __ATOMIC_SEQ_CST) != self)
            return 0;
        if (!signal_unparked(self))
            return 1;
        raw4(SYS_futex, &VK->park_events, FUTEX_WAIT_PRIVATE, seen, 0);
    }
}

static bool is_anybody_unnoted(const struct thread *self)
{
    bool is_unnoted = false;
    vk_threads_lock();
    for (const struct thread *t = VK->threads; t; t = t->next)
        is_unnoted |= t != self && t->life != THREAD_FREE && t->life != THREAD_ENDED &&
                      __atomic_load_n(&t->park, __ATOMIC_SEQ_CST) != THREAD_NOTED;
    vk_threads_unlock();
    return is_unnoted;
}

void vk_note_threads(void)
{
    const struct thread *self = thread_self();
    __atomic_add_fetch(&VK->park_release, 1, __ATOMIC_SEQ_CST);
    raw3(SYS_futex, &VK->park_release, FUTEX_WAKE_PRIVATE, 0x7fffffff);
    for (;;) {
        uint32_t seen = __atomic_load_n(&VK->park_events, __ATOMIC_SEQ_CST);
        if (!is_anybody_unnoted(self))
            return;
        raw4(SYS_futex, &VK->park_events, FUTEX_WAIT_PRIVATE, seen, 0);
    }
}

void vk_release_threads(void)
{
    vk_threads_lock();
    for (struct thread *t = VK->threads; t; t = t->next) {
        t->park = THREAD_RUNS;
        t->awaits_child = 0;
    }
    vk_threads_unlock();
    __atomic_store_n(&VK->leader, NULL, __ATOMIC_SEQ_CST);
    __atomic_store_n(&VK->park_wanted, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&VK->park_release, (VK->park_release | 1) + 1, __ATOMIC_SEQ_CST);
    raw3(SYS_futex, &VK->park_release, FUTEX_WAKE_PRIVATE, 0x7fffffff);
}

static uint64_t fs_base(void)
{
    uint64_t fs;
    __asm__ volatile("rdfsbase %0" : "=r"(fs));
    return fs;
}

/* The agent signals the main thread; if that has ended, the one that calls MPI takes its place. */
static void pass_signal_on(void)
{
    const struct thread *to = VK->mpi_thread;
    for (const struct thread *t = VK->threads; (!to || to->life != THREAD_LIVE) && t; t = t->next)
        to = t;
    if (to && to->life == THREAD_LIVE)
        raw3(SYS_tgkill, to->pid, to->tid, CONTROL_SIGNAL);
}

/*
 * A handler of the application has met the virtual kernel, and has left both by a jump: the stack is in use
 * from its frame on upwards, or it is another one than the handler's alternate one.
 */
static bool has_jumped_out(const struct thread *self, uint64_t rsp)
{
    bool has_left_stack = self->handler_stack[1] && rsp - self->handler_stack[0] >= self->handler_stack[1];
    return self->in_vk && self->handler_frame && (rsp > self->handler_frame || has_left_stack);
}

/*
 * Called by the handler of CONTROL_SIGNAL. 0: this is no safe point, the thread looks again when it leaves
 * what it is in (`pending`). Forked children and threads of the lower half have nothing to do with it. Beyond
 * 1: it is this signal of the application's.
 */
int vk_signal_is_safe(int signal, void *info, void *ucontext)
{
    (void)signal;
    struct thread *self = thread_self();
    if (vk_own_signal_is_foreign(info))
        return vk_signal_deliver(info, ucontext);
    const greg_t *g = ((ucontext_t *)ucontext)->uc_mcontext.gregs;
    uint64_t rip = (uint64_t)g[REG_RIP];
    if (!VK->safepoint || !vk_is_own_process() || !vk_is_rank())
        return 0;
    if (self->life == THREAD_ENDED) {
        pass_signal_on();
        return 0;
    }
    if (has_jumped_out(self, (uint64_t)g[REG_RSP]))
        self->in_vk = 0;
    if (self->depth || self->in_vk || vk_action_is_before_handler(rip) || fs_base() != self->upper_fs ||
        !vk_is_saved_code(rip) || vk_cut_has_result(ucontext)) {
        self->pending |= THREAD_PENDING_SIGNAL;
        return 0;
    }
    self->awaits_child = vk_cut_awaits_child(ucontext);
    return 1;
}
