/*
 * vk_wait.c - calls that wait, and that the kernel ends when a handler has run, whatever SA_RESTART says, or
 * ends with less than was asked for. They must not notice our signal.
 *
 * Such a call is made from the page at VDSO_ADDRESS (not trapped there, and a good place for a saved frame
 * to return to), with a struct wait on the thread's stack: the caller's arguments, and those that the kernel
 * gets. If our signal has met it (vk_cut.c), vk_wait_ended() sets it up again for the time and the data that
 * remain. Where the kernel itself writes back the time that remains, it is used; a relative futex wait
 * becomes an absolute one, and absolute times are translated again, since a restart may have changed the
 * clock.
 */
#include "mpi-layer/lower/vk_wait.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "common/util/clock.h"
#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_child.h"
#include "mpi-layer/lower/vk_clock.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_file.h"
#include "mpi-layer/lower/vk_id.h"
#include "mpi-layer/lower/vk_inherit.h"
#include "mpi-layer/lower/vk_mask.h"
#include "mpi-layer/lower/vk_own_signal.h"
#include "mpi-layer/lower/vk_sender.h"
#include "mpi-layer/lower/vk_signal.h"
#include "mpi-layer/lower/vk_signalfd.h"
#include "mpi-layer/lower/vk_sysv.h"
#include "mpi-layer/lower/vk_timer.h"
#include "mpi-layer/lower/vk_transfer.h"
#include "mpi-layer/lower/vk_width.h"

#define ENDLESS_S 1000000000 /* in ns it might not fit */

enum { A, B, C, D, E, F }; /* arguments of a system call */

static int64_t *own_time(struct wait *wait, long time)
{
    if (!time) /* for the kernel to refuse */
        return NULL;
    wait->time[0] = ((const int64_t *)time)[0];
    wait->time[1] = ((const int64_t *)time)[1];
    return wait->time;
}

/* A set of signals that must not hold ours: a mask to wait with, or signals to wait for. */
static long own_mask(struct wait *wait, long mask)
{
    if (!mask)
        return 0;
    wait->mask = *(const uint64_t *)mask & ~vk_own_signals();
    return (long)&wait->mask;
}

static long kernel_deadline(struct wait *wait)
{
    wait->time[0] = wait->deadline[0];
    wait->time[1] = wait->deadline[1];
    vk_clock_to_kernel(wait->deadline_clock, wait->time);
    return (long)wait->time;
}

static long own_deadline(struct wait *wait, int clock, long deadline)
{
    if (!own_time(wait, deadline))
        return 0;
    wait->deadline[0] = wait->time[0];
    wait->deadline[1] = wait->time[1];
    wait->deadline_clock = clock;
    return kernel_deadline(wait);
}

/* `time` and `remaining` are numbers of arguments. */
static void prepare_sleep(struct wait *wait, int time, int remaining)
{
    wait->call[time] = (long)own_time(wait, wait->call[time]);
    if (!wait->call[remaining])
        wait->call[remaining] = (long)wait->remaining;
}

static void prepare_clock_sleep(struct wait *wait)
{
    long *call = wait->call;
    if (call[B] & TIMER_ABSTIME)
        call[C] = own_deadline(wait, (int)call[A], call[C]);
    else
        prepare_sleep(wait, C, D);
    call[A] = vk_clock_id(call[A]);
}

static void prepare_poll(struct wait *wait)
{
    int ms = (int)wait->call[C];
    wait->time[0] = ms / 1000;
    wait->time[1] = ms % 1000 * 1000000l;
    wait->call_nr = SYS_ppoll;
    wait->call[C] = ms < 0 ? 0 : (long)wait->time;
    wait->call[D] = 0;
    wait->call[E] = 8;
}

static void prepare_pselect(struct wait *wait)
{
    const uint64_t *argument = (const uint64_t *)wait->call[F];
    if (!argument)
        return;
    wait->pselect[0] = (uint64_t)own_mask(wait, (long)argument[0]);
    wait->pselect[1] = argument[1];
    wait->call[F] = (long)wait->pselect;
}

/*
 * Once the mutex is had, or cannot be had at all, the call wakes nobody up, and its result is in `wanted`.
 * Else the call waits for the word to change.
 */
static void try_mutex(struct wait *wait, bool has_waited)
{
    long *call = wait->call, result, flags = wait->args[B] & (FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);
    uint32_t seen = 0;
    wait->done = vk_inherit_try((uint32_t *)wait->args[A], has_waited, &seen, &result);
    wait->wanted = result;
    call[B] = wait->done ? FUTEX_WAKE : FUTEX_WAIT_BITSET | flags;
    call[C] = wait->done ? 0 : seen;
    call[F] = 0xffffffff;
    if (wait->deadline_clock == CLOCK_REALTIME)
        call[B] |= wait->done ? 0 : FUTEX_CLOCK_REALTIME;
}

static void prepare_mutex(struct wait *wait)
{
    long *call = wait->call;
    bool is_real = (call[B] & FUTEX_CMD_MASK) == FUTEX_LOCK_PI || (call[B] & FUTEX_CLOCK_REALTIME);
    if (!vk_is_pointer(call[A]))
        return;
    if (call[D])
        call[D] = own_deadline(wait, is_real ? CLOCK_REALTIME : CLOCK_MONOTONIC, call[D]);
    wait->has_end = 1;
    try_mutex(wait, false);
}

static void prepare_futex(struct wait *wait)
{
    long *call = wait->call, command = call[B] & FUTEX_CMD_MASK;
    if (vk_inherit_is_wait(wait))
        prepare_mutex(wait);
    if (vk_inherit_is_wait(wait) || !vk_is_pointer(call[D]))
        return;
    if (command == FUTEX_WAIT) {
        wait->deadline_clock = CLOCK_MONOTONIC;
        vk_clock_after(wait->deadline, (const int64_t *)call[D]);
        call[B] = (call[B] & ~(long)FUTEX_CMD_MASK) | FUTEX_WAIT_BITSET;
        call[D] = kernel_deadline(wait);
        call[F] = 0xffffffff;
    } else if (command == FUTEX_WAIT_BITSET) {
        call[D] =
            own_deadline(wait, call[B] & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC, call[D]);
    }
}

/* futex_waitv() and futex_wait(): the time is absolute, the last argument names its clock. */
static void prepare_futex_until(struct wait *wait)
{
    int time = wait->nr == VK_SYS_futex_waitv ? D : E;
    wait->restarts = 1;
    if (wait->call[time])
        wait->call[time] = own_deadline(wait, (int)wait->call[time + 1], wait->call[time]);
}

/* An interval whose rest the kernel does not tell. */
static void note_start(struct wait *wait)
{
    wait->start_ns = vk_clock_now_ns();
}

static void prepare_copied_time(struct wait *wait, int time)
{
    if (!wait->call[time])
        return;
    wait->call[time] = (long)own_time(wait, wait->call[time]);
    note_start(wait);
}

static bool is_output(long nr)
{
    return nr == SYS_write || nr == SYS_writev || nr == SYS_sendto || nr == SYS_sendmsg ||
           nr == SYS_sendmmsg || nr == SYS_connect;
}

/* A call on a descriptor that may be a socket with a timeout of its own. */
static void prepare_socket(struct wait *wait)
{
    int64_t timeout[2] = {0, 0};
    uint32_t bytes = sizeof timeout;
    wait->restarts = 1;
    if (!VK->has_socket_timeouts)
        return;
    wait->socket = (int)wait->call[A];
    wait->socket_option = is_output(wait->nr) ? SO_SNDTIMEO : SO_RCVTIMEO;
    if (raw_syscall(SYS_getsockopt, wait->socket, SOL_SOCKET, wait->socket_option, (long)timeout,
                    (long)&bytes, 0) == 0)
        wait->socket_us = timeout[0] * 1000000 + timeout[1];
    note_start(wait);
}

static void prepare_sysv(struct wait *wait)
{
    wait->call[A] = vk_sysv_wait_id(wait->nr, wait->args[A]);
    if (wait->nr == SYS_semtimedop)
        prepare_copied_time(wait, D);
    wait->has_end = vk_sysv_has_undo(wait);
}

/* A call that writes to a file, but has to wait for what it writes: the file's old contents are noted for
 * each line. */
static void note_write(const struct wait *wait)
{
    uint64_t all = ~0ul, mask;
    long args[6];
    if (!wait->is_write)
        return;
    for (int i = 0; i < 6; i++)
        args[i] = wait->args[i];
    vk_narrow(wait->nr, args);
    raw4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, 8);
    vk_file_note_write(wait->nr, args);
    raw4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
}

/* Credentials, until the first part is sent: a restart may have come since. */
static void rename_sent(struct wait *wait)
{
    if (wait->nr == SYS_sendmsg && !wait->done && vk_sender_is_named((const struct msghdr *)wait->args[B]))
        vk_sender_rename(wait);
}

static void prepare_transfer(struct wait *wait)
{
    if (wait->nr == SYS_sendfile || wait->nr == SYS_splice || wait->nr == SYS_getrandom)
        wait->restarts = 1;
    else
        prepare_socket(wait);
    wait->is_write = vk_file_is_write(wait->nr) &&
                     vk_fd_class(vk_file_written_fd(wait->nr, wait->call[A], wait->call[C])) == VK_FD_REGULAR;
    note_write(wait);
    vk_transfer_note_passed(wait->nr, wait->args[B]);
    vk_transfer_begin(wait);
    if (wait->nr == SYS_recvmmsg)
        prepare_copied_time(wait, E);
    wait->has_end = wait->socket_us || vk_transfer_may_bring_fds(wait->nr, wait->args[B]) ||
                    vk_signalfd_is_read(wait->nr, wait->call[A]);
    rename_sent(wait);
}

/* A call that does not wait, and is here because signals may come at it; or one that no handler ends. */
static bool is_never_ended(const struct wait *wait)
{
    return wait->nr == SYS_rt_sigprocmask || wait->nr == SYS_tgkill || wait->nr == SYS_kill ||
           vk_inherit_is_wait(wait);
}

/* The call again, as it is set up, unless a handler of the application has run since the counts. */
static void go_on(struct wait *wait)
{
    const struct thread *self = thread_self();
    bool is_restarted = wait->restarts && !wait->socket_us && !wait->done;
    wait->watched = is_restarted ? &self->handlers.ending : &self->handlers.all;
    wait->watched_from = is_restarted ? wait->handlers.ending : wait->handlers.all;
    if (is_never_ended(wait))
        wait->watched = &wait->watched_from;
    wait->goes_on = 1;
    wait->is_over = 0;
}

static void begin(struct wait *wait)
{
    const struct thread *self = thread_self();
    for (int i = 0; i < 6; i++)
        wait->call[i] = wait->args[i];
    vk_narrow(wait->nr, wait->call);
    wait->call_nr = wait->nr;
    wait->handlers = self->handlers;
    wait->deadline_clock = -1;
    wait->is_over = wait->is_cut = wait->is_unmade = wait->is_write = 0;
    wait->has_end = wait->restarts = 0;
    wait->socket_us = wait->is_shortened = 0;
    wait->done = 0;
}

/* By the kernel's ids of now: a restart may have come since the program asked. */
static void prepare_tgkill(struct wait *wait)
{
    wait->call[A] = vk_id_kernel(wait->args[A]);
    wait->call[B] = vk_tgkill_tid(wait->call[A], wait->args[B]);
}

static void prepare_kill(struct wait *wait)
{
    wait->call[A] = vk_id_kernel_signed((int)wait->args[A]);
}

static void prepare_nanosleep(struct wait *wait)
{
    prepare_sleep(wait, A, B);
}

static void prepare_ppoll(struct wait *wait)
{
    wait->call[D] = own_mask(wait, wait->call[D]);
}

static void prepare_epoll_pwait(struct wait *wait)
{
    wait->call[E] = own_mask(wait, wait->call[E]);
    if (wait->nr == VK_SYS_epoll_pwait2)
        prepare_copied_time(wait, D);
    else
        note_start(wait);
}

static void prepare_sigsuspend(struct wait *wait)
{
    wait->call[A] = own_mask(wait, wait->call[A]);
}

static void prepare_sigtimedwait(struct wait *wait)
{
    wait->call[A] = own_mask(wait, wait->call[A]);
    prepare_copied_time(wait, C);
    wait->has_end = wait->args[B] != 0;
}

static void prepare_lock(struct wait *wait)
{
    vk_fd_note_lock(wait->call[A]);
    wait->restarts = 1;
}

static void prepare_open(struct wait *wait)
{
    wait->restarts = wait->has_end = 1;
}

static void prepare_accept(struct wait *wait)
{
    prepare_socket(wait);
    wait->has_end = 1;
}

static void prepare_connect(struct wait *wait)
{
    prepare_socket(wait);
    wait->has_end = wait->socket_us != 0;
}

/* A group may have another id since a restart; children have been started since, and have the kernel's. */
static void prepare_wait_for_child(struct wait *wait)
{
    long *call = wait->call;
    if (wait->nr == SYS_wait4 && call[A] < -1)
        call[A] = vk_id_kernel_signed(call[A]);
    else if (wait->nr == SYS_waitid && call[A] == P_PGID)
        call[B] = vk_id_kernel(call[B]);
    wait->restarts = wait->has_end = 1;
}

static void prepare_nothing(struct wait *wait)
{
    (void)wait;
}

/* By number; all others transfer data. */
static void (*const preparations[])(struct wait *wait) = {
    [SYS_nanosleep] = prepare_nanosleep,
    [SYS_clock_nanosleep] = prepare_clock_sleep,
    [SYS_poll] = prepare_poll,
    [SYS_ppoll] = prepare_ppoll,
    [SYS_pselect6] = prepare_pselect,
    [SYS_epoll_wait] = note_start,
    [SYS_epoll_pwait] = prepare_epoll_pwait,
    [VK_SYS_epoll_pwait2] = prepare_epoll_pwait,
    [SYS_rt_sigprocmask] = vk_mask_begins,
    [SYS_tgkill] = prepare_tgkill,
    [SYS_kill] = prepare_kill,
    [SYS_rt_sigsuspend] = prepare_sigsuspend,
    [SYS_rt_sigtimedwait] = prepare_sigtimedwait,
    [SYS_semop] = prepare_sysv,
    [SYS_semtimedop] = prepare_sysv,
    [SYS_msgsnd] = prepare_sysv,
    [SYS_msgrcv] = prepare_sysv,
    [SYS_futex] = prepare_futex,
    [VK_SYS_futex_waitv] = prepare_futex_until,
    [VK_SYS_futex_wait] = prepare_futex_until,
    [SYS_flock] = prepare_lock,
    [SYS_fcntl] = prepare_lock,
    [SYS_pause] = prepare_nothing,
    [SYS_ioctl] = prepare_nothing,
    [SYS_wait4] = prepare_wait_for_child,
    [SYS_waitid] = prepare_wait_for_child,
    [SYS_open] = prepare_open,
    [SYS_openat] = prepare_open,
    [VK_SYS_openat2] = prepare_open,
    [SYS_creat] = prepare_open,
    [SYS_accept] = prepare_accept,
    [SYS_accept4] = prepare_accept,
    [SYS_connect] = prepare_connect,
};

static void prepare(struct wait *wait)
{
    uint64_t nr = (uint64_t)wait->nr;
    if (!vk_is_sound(wait->nr, wait->call)) /* the kernel refuses it */
        return;
    if (nr < sizeof preparations / sizeof *preparations && preparations[nr])
        preparations[nr](wait);
    else
        prepare_transfer(wait);
}

void vk_wait_prepare(struct wait *wait)
{
    begin(wait);
    prepare(wait);
    go_on(wait);
    if (wait->restarts) /* a handler that comes before the call has not interrupted it */
        wait->watched = &wait->watched_from;
}

/* What is left of an interval since the wait began; the next interruption counts from here. */
static uint64_t left_ns(struct wait *wait, uint64_t interval_ns)
{
    uint64_t now = vk_clock_now_ns(), gone = now - wait->start_ns;
    wait->start_ns = now;
    return interval_ns > gone ? interval_ns - gone : 0;
}

static void shorten_time(struct wait *wait)
{
    if (wait->time[0] > ENDLESS_S)
        return;
    uint64_t left = left_ns(wait, (uint64_t)wait->time[0] * 1000000000u + (uint64_t)wait->time[1]);
    wait->time[0] = (int64_t)(left / 1000000000u);
    wait->time[1] = (int64_t)(left % 1000000000u);
}

/* The socket's own timeout is shortened for the rest of the call. False: nothing is left of it. */
static bool shorten_socket(struct wait *wait)
{
    uint64_t whole_us = (uint64_t)wait->socket_us, gone_us = (vk_clock_now_ns() - wait->start_ns) / 1000;
    int64_t left[2];
    if (!whole_us)
        return true;
    if (gone_us >= whole_us)
        return false;
    left[0] = (int64_t)((whole_us - gone_us) / 1000000);
    left[1] = (int64_t)((whole_us - gone_us) % 1000000);
    raw_syscall(SYS_setsockopt, wait->socket, SOL_SOCKET, wait->socket_option, (long)left, sizeof left, 0);
    wait->is_shortened = 1;
    return true;
}

/* Where a sleep tells what was left of it. NULL: it is none, or one to a moment. */
static int64_t *remaining_of(const struct wait *wait)
{
    if (wait->deadline_clock >= 0)
        return NULL;
    return wait->nr == SYS_nanosleep         ? (int64_t *)wait->call[B]
           : wait->nr == SYS_clock_nanosleep ? (int64_t *)wait->call[D]
                                             : NULL;
}

/* Set the call up for the time that remains. 0, or the error that it has to end with. */
static int shorten(struct wait *wait, bool is_unmade)
{
    long *call = wait->call;
    if (wait->nr == SYS_clock_nanosleep)
        call[A] = vk_clock_id(wait->args[A]);
    if (wait->deadline_clock >= 0) {
        kernel_deadline(wait);
        return 0;
    }
    switch (wait->nr) {
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
        if (!is_unmade)
            own_time(wait, (long)remaining_of(wait));
        break;
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
        if ((int)call[D] > 0)
            call[D] = (long)((left_ns(wait, (uint64_t)call[D] * 1000000u) + 999999) / 1000000);
        break;
    case SYS_tgkill:
        prepare_tgkill(wait);
        break;
    case SYS_kill:
        prepare_kill(wait);
        break;
    case SYS_flock: /* a restart has forgotten it */
    case SYS_fcntl:
        vk_fd_note_lock(wait->call[A]);
        break;
    case SYS_rt_sigtimedwait:
        if (call[C])
            shorten_time(wait);
        break;
    case SYS_semtimedop:
    case VK_SYS_epoll_pwait2:
        if (call[D])
            shorten_time(wait);
        break;
    case SYS_recvmmsg:
        if (call[E])
            shorten_time(wait);
        break;
    }
    if (!shorten_socket(wait))
        return wait->nr == SYS_connect ? EINPROGRESS : EAGAIN;
    note_write(wait);
    rename_sent(wait);
    return 0;
}

static void wait_for_gone_child(const struct wait *wait, long *result)
{
    long args[6];
    for (int i = 0; i < 6; i++)
        args[i] = wait->args[i];
    vk_narrow(wait->nr, args);
    vk_child_wait(wait->nr, args, result);
}

/* The call is not made again: its result. */
static long end(struct wait *wait, long result)
{
    wait->goes_on = 0;
    if (wait->is_shortened) {
        int64_t whole[2] = {wait->socket_us / 1000000, wait->socket_us % 1000000};
        raw_syscall(SYS_setsockopt, wait->socket, SOL_SOCKET, wait->socket_option, (long)whole, sizeof whole,
                    0);
    }
    if (result > 0 && vk_signalfd_is_read(wait->nr, wait->args[A]))
        vk_signalfd_rename(wait->nr, (const long *)wait->args, result);
    if (vk_transfer_is(wait->nr)) {
        result = wait->done ? wait->done : result;
        vk_transfer_end(wait, result);
    }
    if (wait->nr == SYS_recvmmsg && wait->call[E] && result > 0) {
        ((int64_t *)wait->args[E])[0] = wait->time[0];
        ((int64_t *)wait->args[E])[1] = wait->time[1];
    }
    if (wait->nr == SYS_rt_sigtimedwait && result > 0 && wait->args[B])
        vk_signal_rename((void *)wait->args[B]);
    vk_file_note_opened(wait->nr, result);
    if (wait->nr == SYS_rt_sigprocmask)
        vk_mask_ended(wait, result);
    if (result == 0 && vk_sysv_has_undo(wait))
        vk_sysv_done(wait);
    if (result == -ECHILD && vk_child_is_wait(wait->nr)) /* there has been a restart meanwhile */
        wait_for_gone_child(wait, &result);
    return result;
}

/* A handler of the application came before the call could be made (again). */
static long end_unmade(struct wait *wait)
{
    int64_t *remaining = remaining_of(wait);
    if (remaining) {
        remaining[0] = wait->time[0];
        remaining[1] = wait->time[1];
    }
    return end(wait, -EINTR);
}

/* Somebody has let go of the mutex, or a signal has come: no signal ends the call. */
static long mutex_ended(struct wait *wait, long result)
{
    wait->is_cut = wait->is_unmade = 0;
    if (!wait->done && (result == 0 || result == -EAGAIN || result == -EINTR))
        try_mutex(wait, true);
    else if (!wait->done)
        return end(wait, result);
    if (wait->done)
        return end(wait, wait->wanted);
    if (wait->deadline_clock >= 0)
        kernel_deadline(wait);
    go_on(wait);
    return 0;
}

long vk_wait_ended(struct wait *wait, long result)
{
    if (vk_inherit_is_wait(wait) && wait->has_end)
        return mutex_ended(wait, result);
    bool is_cut = wait->is_cut, is_unmade = wait->is_unmade;
    wait->is_cut = wait->is_unmade = 0;
    if (is_unmade && !is_cut)
        return end_unmade(wait);
    bool is_interrupted = is_cut && result == -EINTR;
    if (!is_interrupted && !vk_transfer_goes_on(wait, result, is_cut))
        return end(wait, result);
    int error = is_cut ? shorten(wait, is_unmade) : 0;
    if (error)
        return end(wait, -error);
    if (vk_sysv_is_wait(wait->nr)) /* after a restart the object may be under another id of the kernel's */
        wait->call[A] = vk_sysv_wait_id(wait->nr, wait->args[A]);
    go_on(wait);
    return 0;
}

long vk_wait_resume(struct wait *wait, long result)
{
    uint32_t handlers = (uint32_t)((uint64_t)wait->nr >> 32);
    wait->nr = (uint32_t)wait->nr;
    begin(wait);
    wait->restarts = wait->has_end = wait->is_cut = 1;
    wait->handlers.all = handlers;
    vk_transfer_begin(wait);
    return vk_wait_ended(wait, result);
}
