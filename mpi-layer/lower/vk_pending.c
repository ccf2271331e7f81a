/*
 * vk_pending.c - what the kernel knows of a thread besides its registers: pending signals, the alternate
 * stack, its processor time, its name. Noted when it parks, made again by a restart.
 *
 * There is no way to look at pending signals (siginfo) without taking them. So each is taken and, when all
 * have been noted, sent again with the same siginfo: the kernel lets a thread send itself any. All signals
 * are blocked meanwhile, so the order stays and no handler notices.
 */
#include "mpi-layer/lower/vk_thread.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <time.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_id.h"
#include "mpi-layer/lower/vk_own_signal.h"
#include "mpi-layer/lower/vk_settings.h"
#include "mpi-layer/lower/vk_signal.h"
#include "mpi-layer/lower/vk_tid.h"
#include "mpi-layer/lower/vk_timer.h"

#define INFO_BYTES 128
#define NOTE_TRIES 16

/*
 * The mask behind "SigPnd:" of the calling thread's status: pending for itself, not for the process. 0 with
 * *failure if it cannot be read.
 */
static uint64_t own_pending(const char **failure)
{
    static const char word[] = "SigPnd:\t";
    char text[512];
    size_t matched = 0;
    uint64_t mask = 0;
    long fd = raw3(SYS_open, "/proc/thread-self/status", 0, 0), got = 0;
    if (fd < 0)
        *failure = "its pending signals cannot be told from one another: no descriptor is left";
    for (bool is_done = fd < 0; !is_done && (got = raw3(SYS_read, fd, text, sizeof text)) > 0;)
        for (long i = 0; i < got && !is_done; i++) {
            char c = text[i];
            if (!word[matched] && c == '\n')
                is_done = true;
            else if (!word[matched])
                mask = mask << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
            else
                matched = c == word[matched] ? matched + 1 : c == word[0];
        }
    if (fd >= 0)
        raw1(SYS_close, fd);
    return mask;
}

static void *reserve_info(struct signal_queue *queue)
{
    vk_threads_lock(); /* threads park side by side */
    uint8_t(*table)[INFO_BYTES] = vk_reserve(queue->infos, queue->count, &queue->capacity, INFO_BYTES, 8);
    vk_threads_unlock();
    if (!table)
        return NULL;
    queue->infos = table;
    return queue->infos[queue->count];
}

/* Take one pending signal of the set into the queue. False: there is none (any more), or *failure. */
static bool take(struct signal_queue *queue, uint64_t set, const char **failure)
{
    static const int64_t now[2];
    void *info = reserve_info(queue);
    if (!info)
        *failure = "its pending signals cannot be noted: no memory";
    if (!info || raw4(SYS_rt_sigtimedwait, &set, info, now, 8) < 0)
        return false;
    queue->count++;
    return true;
}

/* The kernel gives a thread's own signals first; a number that is pending for the process as well comes next.
 */
static void take_own(struct thread *self, uint64_t pending, const char **failure)
{
    for (uint64_t own = own_pending(failure) & pending; own; own = own_pending(failure) & pending)
        if (!take(&self->signals, own & -own, failure))
            return;
}

void vk_pending_drop(void)
{
    static const int64_t now[2];
    const uint64_t all = ~0ul;
    while (raw4(SYS_rt_sigtimedwait, &all, 0, now, 8) > 0)
        ;
}

static void send_again(const struct signal_queue *queue, const struct thread *to)
{
    for (uint64_t i = 0; i < queue->count; i++) {
        const int *info = (const int *)(const void *)queue->infos[i];
        if (to)
            raw4(SYS_rt_tgsigqueueinfo, to->pid, to->tid, info[0], info);
        else
            raw3(SYS_rt_sigqueueinfo, VK->pid, info[0], info);
    }
}

/* What is noted names processes as the application knows them: those that have sent it may be other ones
 * then. */
static void rename_senders(const struct signal_queue *queue, void (*rename)(void *info))
{
    for (uint64_t i = 0; i < queue->count; i++)
        rename(queue->infos[i]);
}

/* The main thread notes those of the process: only it may send any siginfo to the process again. */
static void note_pending(struct thread *self, const char **failure)
{
    uint64_t pending = 0;
    bool is_main = self == VK->threads;
    self->signals.count = 0;
    if (is_main)
        VK->signals.count = 0;
    raw2(SYS_rt_sigpending, &pending, 8);
    pending &= ~VK_SIGNAL_BIT(SIGSYS); /* CONTROL_SIGNAL may be the application's; ours does no harm */
    if (!pending)
        return;
    take_own(self, pending, failure);
    while (is_main && !*failure && take(&VK->signals, pending, failure))
        ;
    send_again(&self->signals, self);
    rename_senders(&self->signals, vk_id_rename_sender);
    if (is_main) {
        send_again(&VK->signals, NULL);
        rename_senders(&VK->signals, vk_id_rename_sender);
    }
}

/*
 * A timer that runs out between the looks at the timers and at the signals would be lost, or come twice. One
 * with a short interval does so all the time, and is none of which a single tick counts.
 */
static void note_signals(struct thread *self, const char **failure)
{
    for (int tries = 0; tries < NOTE_TRIES; tries++) {
        vk_timers_note(self);
        note_pending(self, failure);
        if (*failure || !vk_timers_have_run_out(self))
            return;
    }
}

static int64_t processor_ns(const struct thread *self)
{
    int64_t now[2];
    raw2(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, now);
    return now[0] * 1000000000 + now[1] + self->cpu_offset_ns;
}

const char *vk_thread_note(void)
{
    struct thread *self = thread_self();
    const char *failure = NULL;
    raw2(SYS_sigaltstack, 0, self->alt_stack);
    raw2(SYS_prctl, PR_GET_NAME, self->name);
    vk_settings_read(&self->settings);
    note_signals(self, &failure);
    self->cpu_noted_ns = processor_ns(self);
    return failure;
}

void vk_thread_restore(struct thread *self)
{
    raw2(SYS_sigaltstack, self->alt_stack, 0);
    raw2(SYS_prctl, PR_SET_NAME, self->name);
    vk_settings_restore(&self->settings, &VK->thread_settings_at_start);
    rename_senders(&self->signals, vk_id_rename_sender_back);
    send_again(&self->signals, self);
    if (self == VK->threads) {
        rename_senders(&VK->signals, vk_id_rename_sender_back);
        send_again(&VK->signals, NULL);
    }
    self->cpu_offset_ns = 0;
    self->cpu_offset_ns = self->cpu_noted_ns - processor_ns(self);
}
