/*
 * vk_timer.c - POSIX timers of the application (timer_create). The ids that it knows are ours: the kernel's
 * are others after a restart.
 */
#include "mpi-layer/lower/vk_timer.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/timerfd.h>
#include <time.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_clock.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_tid.h"

static struct vk_timer *timer_by_id(long id)
{
    if (id < 0 || id >= __atomic_load_n(&VK->timer_count, __ATOMIC_ACQUIRE))
        return NULL;
    struct vk_timer *timer = __atomic_load_n(&VK->timers, __ATOMIC_ACQUIRE)[id];
    return timer->is_used ? timer : NULL;
}

/* Room for one more in the table; another thread may be looking at the one before. */
static bool make_room(void)
{
    uint64_t capacity = VK->timer_capacity;
    struct vk_timer **table = vk_reserve(VK->timers, VK->timer_count, &capacity, sizeof *table, 16);
    if (!table)
        return false;
    __atomic_store_n(&VK->timers, table, __ATOMIC_RELEASE);
    VK->timer_capacity = (uint32_t)capacity;
    return true;
}

/* A record with the lowest id that is free. NULL: out of memory. Locked by the caller. */
static struct vk_timer *timer_new(void)
{
    uint32_t id = VK->timer_from;
    while (id < VK->timer_count && VK->timers[id]->is_used)
        id++;
    if (id == VK->timer_count) {
        struct vk_timer *timer = make_room() ? vk_alloc(sizeof *timer) : NULL;
        if (!timer)
            return NULL;
        timer->id = (int32_t)id;
        VK->timers[id] = timer;
        __atomic_store_n(&VK->timer_count, id + 1, __ATOMIC_RELEASE);
    }
    VK->timers[id]->is_used = 1;
    VK->timer_from = id + 1;
    return VK->timers[id];
}

static void timer_free(struct vk_timer *timer)
{
    vk_threads_lock();
    timer->is_used = 0;
    if ((uint32_t)timer->id < VK->timer_from)
        VK->timer_from = (uint32_t)timer->id;
    vk_threads_unlock();
}

/* Make the timer in the kernel, which writes its number to *id. Returns 0 or -errno. */
static long kernel_create(struct vk_timer *timer, int *id)
{
    struct vk_sigevent event = timer->event;
    const struct thread *thread = vk_thread_by_vtid((uint32_t)event.tid);
    if (event.notify == SIGEV_THREAD_ID && thread) {
        timer->event.tid = (int)thread->vtid; /* not the process's id, which will be another one */
        event.tid = (int)thread->tid;
    }
    return raw3(SYS_timer_create, vk_clock_id(timer->clock), &event, id);
}

static long timer_make(long clock, const struct vk_sigevent *event, int *id)
{
    vk_threads_lock();
    struct vk_timer *timer = timer_new();
    vk_threads_unlock();
    if (!timer)
        return -EAGAIN;
    timer->clock = (int)clock;
    timer->is_absolute = 0;
    if (event)
        timer->event = *event;
    else
        timer->event = (struct vk_sigevent){(uint64_t)timer->id, SIGALRM, SIGEV_SIGNAL, 0, {0}};
    long result = kernel_create(timer, id);
    if (result < 0) {
        timer_free(timer);
    } else {
        timer->kernel_id = *id;
        *id = timer->id;
    }
    return result;
}

static long timer_set(struct vk_timer *timer, long flags, const int64_t *setting, int64_t *old)
{
    int64_t own[4] = {0};
    for (int i = 0; setting && i < 4; i++)
        own[i] = setting[i];
    if ((flags & TIMER_ABSTIME) && (own[2] || own[3]))
        vk_clock_to_kernel(timer->clock, own + 2);
    long result = raw4(SYS_timer_settime, timer->kernel_id, flags, setting ? own : NULL, old);
    if (result == 0)
        timer->is_absolute = flags & TIMER_ABSTIME ? 1 : 0;
    return result;
}

static long timer_remove(struct vk_timer *timer)
{
    long result = raw1(SYS_timer_delete, timer->kernel_id);
    timer_free(timer);
    return result;
}

long vk_timer_syscall(long nr, long a, long b, long c, long d)
{
    if (nr == SYS_timer_create)
        return timer_make(a, (const struct vk_sigevent *)b, (int *)c);
    struct vk_timer *timer = timer_by_id(a);
    if (!timer)
        return -EINVAL;
    switch (nr) {
    case SYS_timer_settime:
        return timer_set(timer, b, (const int64_t *)c, (int64_t *)d);
    case SYS_timer_gettime:
    case SYS_timer_getoverrun:
        return raw2(nr, timer->kernel_id, b);
    default:
        return timer_remove(timer);
    }
}

/* Before a restart the two numbers are the same. */
static bool has_own_number(uint32_t kernel_id)
{
    return kernel_id < VK->timer_count && VK->timers[kernel_id]->is_used &&
           VK->timers[kernel_id]->kernel_id == (int)kernel_id;
}

void vk_timer_rename(void *info)
{
    int *words = info; /* si_signo, si_errno, si_code, padding, si_timerid */
    if (words[2] != -2 /* SI_TIMER */ || has_own_number((uint32_t)words[4]))
        return;
    for (uint32_t id = 0; id < VK->timer_count; id++)
        if (VK->timers[id]->is_used && VK->timers[id]->kernel_id == words[4]) {
            words[4] = (int)id;
            return;
        }
}

/* Those of a thread that has ended tell nobody: they count as the process's. */
static bool is_noted_by(const struct vk_timer *timer, const struct thread *self, bool notes_process)
{
    const struct thread *receiver =
        timer->event.notify == SIGEV_THREAD_ID ? vk_thread_by_vtid((uint32_t)timer->event.tid) : NULL;
    return timer->is_used && (receiver ? receiver == self : notes_process);
}

/* Who stands for the main thread if that has ended. */
static bool notes_process(const struct thread *self)
{
    const struct thread *main_thread = VK->threads;
    return self == main_thread || (main_thread->life == THREAD_ENDED && self == VK->leader);
}

void vk_timers_note(const struct thread *self)
{
    bool is_for_process = notes_process(self);
    for (uint32_t id = 0; id < VK->timer_count; id++)
        if (is_noted_by(VK->timers[id], self, is_for_process))
            raw2(SYS_timer_gettime, VK->timers[id]->kernel_id, VK->timers[id]->left);
    for (long which = 0; is_for_process && which < 3; which++)
        raw2(SYS_getitimer, which, VK->itimers[which]);
}

/* {interval, value} as of itimerspec and itimerval: once it runs out, nothing is left, or an interval begins.
 */
static bool has_run_out(const int64_t before[4], const int64_t now[4])
{
    bool was_set = before[2] || before[3], is_set = now[2] || now[3];
    return was_set && (!is_set || now[2] > before[2] || (now[2] == before[2] && now[3] > before[3]));
}

bool vk_timers_have_run_out(const struct thread *self)
{
    int64_t now[4];
    bool is_for_process = notes_process(self), is_out = false;
    for (uint32_t id = 0; id < VK->timer_count; id++)
        if (is_noted_by(VK->timers[id], self, is_for_process) &&
            raw2(SYS_timer_gettime, VK->timers[id]->kernel_id, now) == 0)
            is_out |= has_run_out(VK->timers[id]->left, now);
    for (long which = 0; is_for_process && which < 3; which++)
        if (raw2(SYS_getitimer, which, now) == 0)
            is_out |= has_run_out(VK->itimers[which], now);
    return is_out;
}

/* The moment at which a noted timer that counts to a moment is due, as the kernel counts. */
void vk_timer_due(long clock, int64_t left[2])
{
    int64_t noted_ns = (uint64_t)clock < VK_CLOCKS ? VK->clock_noted_ns[clock] : 0;
    int64_t ns = left[1] + noted_ns % 1000000000;
    left[0] += noted_ns / 1000000000 + ns / 1000000000;
    left[1] = ns % 1000000000;
    vk_clock_to_kernel(clock, left);
}

bool vk_timers_restore(void)
{
    for (uint32_t id = 0; id < VK->timer_count; id++) {
        struct vk_timer *t = VK->timers[id];
        int64_t setting[4] = {t->left[0], t->left[1], t->left[2], t->left[3]};
        if (!t->is_used)
            continue;
        if (kernel_create(t, &t->kernel_id) < 0)
            return false;
        if (!setting[2] && !setting[3])
            continue;
        if (t->is_absolute)
            vk_timer_due(t->clock, setting + 2);
        raw4(SYS_timer_settime, t->kernel_id, t->is_absolute ? TIMER_ABSTIME : 0, setting, NULL);
    }
    return true;
}

void vk_timers_forget(void)
{
    for (uint32_t id = 0; id < VK->timer_count; id++)
        VK->timers[id]->is_used = 0;
    VK->timer_from = 0;
}

/* The number behind "clockid:" in the descriptor's fdinfo, -1 if there is none. */
static long timerfd_clock(long fd)
{
    static const char word[] = "clockid: ";
    char path[48] = "/proc/self/fdinfo/", digits[12], text[512];
    int length = 0, used = 18;
    do
        digits[length++] = (char)('0' + fd % 10);
    while ((fd /= 10) && length < 12);
    while (length)
        path[used++] = digits[--length];
    long file = raw3(SYS_open, path, 0, 0), bytes = 0;
    if (file < 0)
        return -1;
    bytes = raw3(SYS_read, file, text, sizeof text);
    raw1(SYS_close, file);
    for (long i = 0; i + (long)sizeof word <= bytes; i++) {
        size_t same = 0;
        while (word[same] && text[i + (long)same] == word[same])
            same++;
        if (!word[same])
            return text[i + (long)same] - '0';
    }
    return -1;
}

static long settime_fd(long fd, long flags, const int64_t *setting, int64_t *old)
{
    long result = raw4(SYS_timerfd_settime, fd, flags, setting, old);
    uint64_t hint = vk_fd_hint(fd);
    if (result == 0 && hint)
        vk_fd_set_hint(fd, VK_FD_HINT_TIMER(hint >> 8 & 0xffffff, flags));
    return result;
}

long vk_timerfd_settime(long fd, long flags, const int64_t *setting, int64_t *old)
{
    if (!setting || !(flags & TFD_TIMER_ABSTIME) || (!setting[2] && !setting[3]))
        return settime_fd(fd, flags, setting, old);
    int64_t own[4] = {setting[0], setting[1], setting[2], setting[3]};
    if (VK->clock_offset_ns[CLOCK_MONOTONIC] || VK->clock_offset_ns[CLOCK_BOOTTIME])
        vk_clock_to_kernel(timerfd_clock(fd), own + 2);
    return settime_fd(fd, flags, own, old);
}
