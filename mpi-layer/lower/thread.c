/* thread.c - see thread.h. */
#include "mpi-layer/lower/thread.h"

#include <asm/prctl.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/rawsys.h"
#include "mpi-layer/lower/vk_action.h"
#include "mpi-layer/lower/vk_own_signal.h"
#include "mpi-layer/lower/vk_thread.h"
#include "mpi-layer/lower/vk_tid.h"

#define CARRIER_STACK_BYTES (512ul << 10)

_Static_assert(offsetof(struct context, mxcsr) == 64 && offsetof(struct context, x87_control) == 68,
               "trap.S");

void thread_jump(const struct thread *thread, uint64_t rip, uint64_t fs) __attribute__((noreturn));
void context_resume(const struct context *context, uint64_t fs) __attribute__((noreturn));

static uint64_t fs_base(void)
{
    uint64_t fs;
    __asm__ volatile("rdfsbase %0" : "=r"(fs));
    return fs;
}

static void set_mask(uint64_t mask, uint64_t *old)
{
    raw4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, old, 8);
}

/* Bind the calling kernel thread to a block. */
static void adopt(struct thread *thread)
{
    thread->lower_fs = fs_base();
    thread->pid = VK->pid;
    thread->tid = (uint32_t)raw0(SYS_gettid);
    raw2(SYS_arch_prctl, ARCH_SET_GS, thread);
}

int thread_adopt_main(struct belay_error *err)
{
    struct thread *main_thread = vk_thread_create();
    if (!main_thread)
        return belay_error_set(err, ENOMEM, "no memory for the main thread's block");
    adopt(main_thread);
    main_thread->vtid = main_thread->tid;
    main_thread->life = THREAD_LIVE;
    return 0;
}

static void announce_started(struct thread *thread, uint32_t value)
{
    __atomic_store_n(&thread->started, value, __ATOMIC_SEQ_CST);
    raw3(SYS_futex, &thread->started, FUTEX_WAKE_PRIVATE, 0x7fffffff);
}

static void wait_started(struct thread *thread, uint32_t while_value)
{
    while (__atomic_load_n(&thread->started, __ATOMIC_SEQ_CST) == while_value)
        raw4(SYS_futex, &thread->started, FUTEX_WAIT_PRIVATE, while_value, 0);
}

enum { STARTED_NOT = 0, STARTED_BOUND = 1, STARTED_GO = 2 };

static void run_new(struct thread *thread)
{
    if (thread->set_tid_address)
        *(uint32_t *)thread->set_tid_address = thread->vtid; /* before it can run and exit */
    vk_threads_lock();
    thread->life = THREAD_LIVE;
    vk_threads_unlock();
    announce_started(thread, STARTED_BOUND);
    vk_park_event();
    thread_jump(thread, vk_start_address, thread->upper_fs);
}

static void run_restored(struct thread *thread)
{
    announce_started(thread, STARTED_BOUND);
    wait_started(thread, STARTED_BOUND);
    set_mask(~VK_SIGNAL_BIT(SIGSYS), NULL);
    vk_thread_restore(thread);
    context_resume(&thread->context, thread->upper_fs);
}

/* What the kernel does for an ending thread. */
static void leave(const struct thread *thread)
{
    vk_thread_leave_mutexes(thread);
    if (thread->clear_tid) {
        __atomic_store_n((uint32_t *)thread->clear_tid, 0, __ATOMIC_SEQ_CST);
        raw3(SYS_futex, thread->clear_tid, FUTEX_WAKE, 1);
    }
}

/*
 * Body of a carrier. All signals are blocked here, also that of pthread_cancel(3), which the lower half's C
 * library lets in: timers of the application's use it (SIGEV_THREAD), and nobody has a handler for it then.
 * The application's thread sets its own mask.
 */
static void *carrier(void *argument)
{
    struct thread *volatile thread = argument;
    bool is_new = thread->life == THREAD_STARTING;
    set_mask(~0ul, NULL);
    adopt(thread);
    if (is_new)
        thread->vtid = vk_thread_new_vtid(thread->tid);
    if (__builtin_setjmp(thread->lower_exit) == 0) {
        if (is_new)
            run_new(thread);
        run_restored(thread);
    }
    /* Back from thread_exit(): lower stack, lower FS, signals blocked. */
    thread = argument;
    leave(thread);
    vk_thread_free(thread); /* not before: a line may come now, and nobody would wake the joiner again */
    return NULL;
}

static int create_carrier(struct thread *thread)
{
    pthread_t handle;
    pthread_attr_t attributes;
    thread->started = STARTED_NOT;
    int code = pthread_attr_init(&attributes);
    if (code)
        return code;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, CARRIER_STACK_BYTES);
    code = pthread_create(&handle, &attributes, carrier, thread);
    pthread_attr_destroy(&attributes);
    if (!code)
        wait_started(thread, STARTED_NOT);
    return code;
}

long thread_start(struct thread *thread)
{
    uint64_t old;
    set_mask(~0ul, &old);
    int code = create_carrier(thread);
    long vtid = thread->vtid;
    set_mask(old, NULL);
    if (code) {
        vk_thread_free(thread);
        return -code;
    }
    return vtid;
}

/* The main thread has called pthread_exit(): the process ends with its last thread. */
static void wait_for_others(void) __attribute__((noreturn));

static void wait_for_others(void)
{
    set_mask(~VK_OWN_SIGNALS, NULL); /* the agent's is for another thread now (vk_thread.c) */
    for (;;) {
        uint32_t seen = __atomic_load_n(&VK->park_events, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&VK->live_threads, __ATOMIC_SEQ_CST) == 1)
            break;
        raw4(SYS_futex, &VK->park_events, FUTEX_WAIT_PRIVATE, seen, 0);
    }
    GATE->announce_exit(CONTROL_EXIT_STATUS, 0);
    raw1(SYS_exit_group, 0);
    __builtin_unreachable();
}

static void main_exit(struct thread *self)
{
    leave(self);
    VK->signals.count = 0; /* nobody notes them any more */
    vk_threads_lock();
    self->life = THREAD_ENDED;
    vk_threads_unlock();
    vk_park_event();
    wait_for_others();
}

void thread_exit(void)
{
    struct thread *self = thread_self();
    set_mask(~0ul, NULL);
    __asm__ volatile("wrfsbase %0" : : "r"(self->lower_fs) : "memory");
    if (self == VK->threads)
        main_exit(self);
    __builtin_longjmp(self->lower_exit, 1);
}

int thread_resume_all(struct belay_error *err)
{
    set_mask(~VK_SIGNAL_BIT(SIGSYS), NULL); /* until the main thread has come back to what it was doing */
    adopt(VK->threads);
    for (struct thread *t = VK->threads->next; t; t = t->next) {
        if (t->life == THREAD_FREE)
            continue;
        int code = create_carrier(t);
        if (code)
            return belay_error_set(err, code, "cannot make thread %u again: %s", t->vtid, strerror(code));
    }
    for (struct thread *t = VK->threads->next; t; t = t->next)
        if (t->life != THREAD_FREE)
            announce_started(t, STARTED_GO);
    return 0;
}

void thread_resume_main(void)
{
    struct thread *main_thread = VK->threads;
    if (main_thread->life == THREAD_ENDED)
        wait_for_others();
    vk_thread_restore(main_thread);
    context_resume(&main_thread->context, main_thread->upper_fs);
}
