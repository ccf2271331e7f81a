/*
 * vk_wait.c - timed waits of the application, which must not notice our signal.
 *
 * The kernel ends them with EINTR whenever a handler has run, whatever SA_RESTART says. So they are made
 * from the page at VDSO_ADDRESS (not trapped there, and a good place for a saved frame to return to): if
 * CONTROL_SIGNAL finds the thread there with EINTR, its handler sends it back with the time that remains.
 * Where the kernel itself writes that time back, it is used; a relative futex wait becomes an absolute one.
 */
#include "mpi-layer/lower/vk.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <time.h>

#define RED_ZONE_BYTES 128
#define SYSCALL_BYTES 2

uint64_t vk_wait_address; /* of __vdso_belay_wait: a syscall instruction, then ret $128 */

static uint64_t now_ns(void)
{
    struct timespec now;
    raw2(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t *own_time(struct wait *wait, const uint64_t *time)
{
    wait->time[0] = time[0];
    wait->time[1] = time[1];
    return wait->time;
}

/* A mask that a call waits with must let our signals in. */
static uint64_t own_mask(struct wait *wait, uint64_t mask)
{
    if (!mask)
        return 0;
    wait->mask = *(const uint64_t *)mask & ~VK_OWN_SIGNALS;
    return (uint64_t)&wait->mask;
}

static void prepare_sleep(struct wait *wait, greg_t *time, greg_t *remaining)
{
    *time = (greg_t)own_time(wait, (const uint64_t *)*time);
    if (!*remaining)
        *remaining = (greg_t)wait->remaining;
}

static void prepare_poll(struct wait *wait, greg_t *g)
{
    int64_t ms = (int)g[REG_RDX];
    wait->time[0] = (uint64_t)ms / 1000;
    wait->time[1] = (uint64_t)ms % 1000 * 1000000;
    g[REG_RAX] = SYS_ppoll;
    g[REG_RDX] = ms < 0 ? 0 : (greg_t)wait->time;
    g[REG_R10] = 0;
    g[REG_R8] = 8;
}

static void prepare_pselect(struct wait *wait, greg_t *g)
{
    const uint64_t *argument = (const uint64_t *)g[REG_R9];
    if (!argument)
        return;
    wait->pselect[0] = own_mask(wait, argument[0]);
    wait->pselect[1] = argument[1];
    g[REG_R9] = (greg_t)wait->pselect;
}

static void prepare_futex(struct wait *wait, greg_t *g)
{
    const uint64_t *time = (const uint64_t *)g[REG_R10];
    if ((g[REG_RSI] & FUTEX_CMD_MASK) != FUTEX_WAIT || !time)
        return;
    uint64_t until = now_ns() + time[0] * 1000000000u + time[1];
    wait->time[0] = until / 1000000000u;
    wait->time[1] = until % 1000000000u;
    g[REG_R10] = (greg_t)wait->time;
    g[REG_RSI] = (g[REG_RSI] & ~(long)FUTEX_CMD_MASK) | FUTEX_WAIT_BITSET;
    g[REG_R9] = 0xffffffff;
}

void vk_wait_start(long nr, greg_t *g)
{
    struct wait *wait = &thread_self()->wait;
    g[REG_RAX] = nr;
    wait->start_ns = now_ns();
    switch (nr) {
    case SYS_nanosleep:
        prepare_sleep(wait, &g[REG_RDI], &g[REG_RSI]);
        break;
    case SYS_clock_nanosleep:
        if (!(g[REG_RSI] & TIMER_ABSTIME))
            prepare_sleep(wait, &g[REG_RDX], &g[REG_R10]);
        break;
    case SYS_poll:
        prepare_poll(wait, g);
        break;
    case SYS_ppoll:
        g[REG_R10] = (greg_t)own_mask(wait, (uint64_t)g[REG_R10]);
        break;
    case SYS_pselect6:
        prepare_pselect(wait, g);
        break;
    case SYS_epoll_pwait:
        g[REG_R8] = (greg_t)own_mask(wait, (uint64_t)g[REG_R8]);
        break;
    case SYS_rt_sigsuspend:
        g[REG_RDI] = (greg_t)own_mask(wait, (uint64_t)g[REG_RDI]);
        break;
    case SYS_rt_sigtimedwait:
        if (g[REG_RDX])
            g[REG_RDX] = (greg_t)own_time(wait, (const uint64_t *)g[REG_RDX]);
        break;
    case SYS_futex:
        prepare_futex(wait, g);
        break;
    }
    wait->nr = g[REG_RAX];
    g[REG_RSP] -= RED_ZONE_BYTES + 8;
    *(greg_t *)g[REG_RSP] = g[REG_RIP];
    g[REG_RIP] = (greg_t)vk_wait_address;
}

/* What is left of an interval since the wait began; the next interruption counts from here. */
static uint64_t left_ns(struct wait *wait, uint64_t interval_ns)
{
    uint64_t now = now_ns(), gone = now - wait->start_ns;
    wait->start_ns = now;
    return interval_ns > gone ? interval_ns - gone : 0;
}

static void shorten(struct wait *wait, greg_t *g)
{
    uint64_t left;
    switch (wait->nr) {
    case SYS_nanosleep:
        own_time(wait, (const uint64_t *)g[REG_RSI]);
        break;
    case SYS_clock_nanosleep:
        if (!(g[REG_RSI] & TIMER_ABSTIME))
            own_time(wait, (const uint64_t *)g[REG_R10]);
        break;
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
        if ((int)g[REG_R10] > 0)
            g[REG_R10] = (greg_t)((left_ns(wait, (uint64_t)g[REG_R10] * 1000000u) + 999999) / 1000000);
        break;
    case SYS_rt_sigtimedwait:
        if (g[REG_RDX]) {
            left = left_ns(wait, wait->time[0] * 1000000000u + wait->time[1]);
            wait->time[0] = left / 1000000000u;
            wait->time[1] = left % 1000000000u;
        }
        break;
    }
}

void vk_wait_interrupted(void *context)
{
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    if ((uint64_t)g[REG_RIP] != vk_wait_address + SYSCALL_BYTES || g[REG_RAX] != -EINTR)
        return;
    struct wait *wait = &thread_self()->wait;
    shorten(wait, g);
    g[REG_RAX] = wait->nr;
    g[REG_RIP] = (greg_t)vk_wait_address;
}
