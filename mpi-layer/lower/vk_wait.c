/*
 * vk_wait.c - waits of the application that the kernel ends with EINTR whenever a handler has run, whatever
 * SA_RESTART says. They must not notice our signal.
 *
 * A trapped wait is made from the page at VDSO_ADDRESS (not trapped there, and a good place for a saved frame
 * to return to), with a struct wait on the thread's stack: the caller's arguments, and those that the kernel
 * gets. If CONTROL_SIGNAL finds the thread there with EINTR, its handler sends it back with the time that
 * remains. Where the kernel itself writes that time back, it is used; a relative futex wait becomes an
 * absolute one, and absolute times are translated again, since a restart may have changed the clock.
 *
 * A handler of the application's ends the wait as it would without us, also if it comes when ours is about
 * to send the thread back.
 */
#include "mpi-layer/lower/vk.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <time.h>

uint64_t vk_wait_entry_address;   /* of __vdso_belay_wait */
uint64_t vk_wait_syscall_address; /* of the syscall instruction in it */

#define ENDLESS_S 1000000000 /* in ns it might not fit */

enum { A, B, C, D, E, F }; /* arguments of a system call */

static int64_t *own_time(struct wait *wait, long time)
{
    wait->time[0] = ((const int64_t *)time)[0];
    wait->time[1] = ((const int64_t *)time)[1];
    return wait->time;
}

/* A set of signals that must not hold ours: a mask to wait with, or signals to wait for. */
static long own_mask(struct wait *wait, long mask)
{
    if (!mask)
        return 0;
    wait->mask = *(const uint64_t *)mask & ~VK_OWN_SIGNALS;
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
    own_time(wait, deadline);
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

static void prepare_futex(struct wait *wait)
{
    long *call = wait->call, command = call[B] & FUTEX_CMD_MASK;
    if (!vk_is_pointer(call[D]))
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

static void prepare_copied_time(struct wait *wait, int time)
{
    if (wait->call[time])
        wait->call[time] = (long)own_time(wait, wait->call[time]);
}

/* A call on a descriptor that may be a socket with a timeout of its own. */
static void prepare_socket(struct wait *wait)
{
    bool is_output = wait->nr == SYS_write || wait->nr == SYS_writev || wait->nr == SYS_sendto ||
                     wait->nr == SYS_sendmsg || wait->nr == SYS_sendmmsg || wait->nr == SYS_connect;
    int64_t timeout[2] = {0, 0};
    uint32_t bytes = sizeof timeout;
    wait->is_on_fd = 1;
    if (!VK->has_socket_timeouts)
        return;
    wait->socket = (int)wait->call[A];
    wait->socket_option = is_output ? SO_SNDTIMEO : SO_RCVTIMEO;
    if (raw_syscall(SYS_getsockopt, wait->socket, SOL_SOCKET, wait->socket_option, (long)timeout,
                    (long)&bytes, 0) == 0)
        wait->socket_us = timeout[0] * 1000000 + timeout[1];
}

void vk_wait_prepare(struct wait *wait)
{
    vk_narrow(wait->nr, wait->call);
    wait->deadline_clock = -1;
    wait->is_over = 0;
    wait->has_end = wait->is_on_fd = 0;
    wait->socket_us = wait->is_shortened = 0;
    wait->start_ns = vk_clock_now_ns();
    if (!vk_is_sound(wait->nr, wait->call))
        return;
    switch (wait->nr) {
    case SYS_nanosleep:
        prepare_sleep(wait, A, B);
        break;
    case SYS_clock_nanosleep:
        prepare_clock_sleep(wait);
        break;
    case SYS_poll:
        prepare_poll(wait);
        break;
    case SYS_ppoll:
        wait->call[D] = own_mask(wait, wait->call[D]);
        break;
    case SYS_pselect6:
        prepare_pselect(wait);
        break;
    case SYS_epoll_pwait:
    case VK_SYS_epoll_pwait2:
        wait->call[E] = own_mask(wait, wait->call[E]);
        if (wait->nr == VK_SYS_epoll_pwait2)
            prepare_copied_time(wait, D);
        break;
    case SYS_rt_sigsuspend:
        wait->call[A] = own_mask(wait, wait->call[A]);
        break;
    case SYS_rt_sigtimedwait:
        wait->call[A] = own_mask(wait, wait->call[A]);
        prepare_copied_time(wait, C);
        break;
    case SYS_semtimedop:
        prepare_copied_time(wait, D);
        break;
    case SYS_futex:
        prepare_futex(wait);
        break;
    case SYS_epoll_wait:
    case SYS_pause:
    case SYS_semop:
    case SYS_msgsnd:
    case SYS_msgrcv:
        break;
    default:
        prepare_socket(wait);
        wait->has_end = wait->socket_us || wait->nr == SYS_accept || wait->nr == SYS_accept4;
    }
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

/* Set the call up for the time that remains. 0, or the error that it has to end with. */
static int shorten(struct wait *wait)
{
    long *call = wait->call;
    if (wait->deadline_clock >= 0) {
        kernel_deadline(wait);
        return 0;
    }
    switch (wait->nr) {
    case SYS_nanosleep:
        own_time(wait, call[B]);
        break;
    case SYS_clock_nanosleep:
        own_time(wait, call[D]);
        break;
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
        if ((int)call[D] > 0)
            call[D] = (long)((left_ns(wait, (uint64_t)call[D] * 1000000u) + 999999) / 1000000);
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
    default:
        if (!shorten_socket(wait))
            return wait->nr == SYS_connect ? EINPROGRESS : EAGAIN;
    }
    return 0;
}

long vk_wait_ended(struct wait *wait, long result)
{
    if (wait->is_shortened) {
        int64_t whole[2] = {wait->socket_us / 1000000, wait->socket_us % 1000000};
        raw_syscall(SYS_setsockopt, wait->socket, SOL_SOCKET, wait->socket_option, (long)whole, sizeof whole,
                    0);
    }
    if (wait->nr == SYS_accept || wait->nr == SYS_accept4)
        vk_fd_add(result);
    return result;
}

static bool is_interrupted(const greg_t *g)
{
    return (uint64_t)g[REG_RIP] == vk_wait_syscall_address + VK_SYSCALL_BYTES && g[REG_RAX] == -EINTR;
}

void vk_wait_interrupted(void *context)
{
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    struct wait *wait = (struct wait *)g[REG_RSP];
    if (!is_interrupted(g) || wait->is_over)
        return;
    int error = shorten(wait);
    if (error) {
        g[REG_RAX] = -error;
        return;
    }
    static const int registers[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
    for (int i = 0; i < 6; i++)
        g[registers[i]] = wait->call[i];
    g[REG_RAX] = wait->call_nr;
    g[REG_RIP] = (greg_t)vk_wait_syscall_address;
}

/* Without a timeout the calls that may be on sockets are the only ones that SA_RESTART restarts. */
static bool is_restarted(const struct wait *wait, int signal)
{
    return wait->is_on_fd && !wait->socket_us && (VK->actions[signal].flags & SA_RESTART);
}

void vk_wait_handled(int signal, void *context)
{
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    struct wait *wait = (struct wait *)g[REG_RSP];
    if ((uint64_t)g[REG_RIP] == vk_wait_syscall_address && !is_restarted(wait, signal)) {
        /* The thread was about to (go on to) wait; the handler's signal ends that. */
        int64_t *remaining = wait->nr == SYS_nanosleep         ? (int64_t *)wait->call[B]
                             : wait->nr == SYS_clock_nanosleep ? (int64_t *)wait->call[D]
                                                               : NULL;
        if (remaining && wait->deadline_clock < 0) {
            remaining[0] = wait->time[0];
            remaining[1] = wait->time[1];
        }
        g[REG_RIP] += VK_SYSCALL_BYTES;
        g[REG_RAX] = -EINTR;
    }
    if (is_interrupted(g))
        wait->is_over = 1;
}
