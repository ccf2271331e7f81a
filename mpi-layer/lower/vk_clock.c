/*
 * vk_clock.c - clocks and timers as the application sees them.
 *
 * Clocks that begin with the machine or with the process differ after a restart. The application's value is
 * the kernel's plus an offset, which a restart chooses (clock.c), so that none of them ever steps back.
 * Deadlines that the application names by such a clock are translated on their way to the kernel.
 */
#include "mpi-layer/lower/vk_clock.h"

#include <errno.h>
#include <limits.h>
#include <sys/resource.h>
#include <time.h>

#include "common/util/clock.h"
#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_id.h"
#include "mpi-layer/lower/vk_tid.h"

#define SECOND_NS 1000000000
#define TICK_NS 10000000 /* of times(2) */

static uint32_t offset_index(long clock)
{
    return clock == CLOCK_BOOTTIME_ALARM ? CLOCK_BOOTTIME : (uint32_t)clock;
}

static int64_t offset_ns(long clock)
{
    if (clock == CLOCK_THREAD_CPUTIME_ID)
        return thread_self()->cpu_offset_ns;
    uint32_t index = offset_index(clock);
    return index < VK_CLOCKS ? VK->clock_offset_ns[index] : 0;
}

/* A moment `ns` later; one before the clock's beginning becomes the first one that timers know. */
static void shift(int64_t time[2], int64_t ns)
{
    int64_t seconds = ns / SECOND_NS, rest = time[1] + ns % SECOND_NS;
    if (rest < 0) {
        rest += SECOND_NS;
        seconds--;
    } else if (rest >= SECOND_NS) {
        rest -= SECOND_NS;
        seconds++;
    }
    if (__builtin_add_overflow(time[0], seconds, &time[0]))
        time[0] = LONG_MAX;
    time[1] = rest;
    if (time[0] < 0) {
        time[0] = 0;
        time[1] = 1;
    }
}

static bool is_time(const int64_t time[2])
{
    return time[0] >= 0 && time[1] >= 0 && time[1] < SECOND_NS;
}

void vk_clock_to_kernel(long clock, int64_t time[2])
{
    int64_t ns = offset_ns(clock);
    if (ns && is_time(time))
        shift(time, -ns);
}

void vk_clock_after(int64_t time[2], const int64_t delay[2])
{
    vk_clock_gettime(CLOCK_MONOTONIC, time);
    if (__builtin_add_overflow(time[0], delay[0], &time[0]))
        time[0] = LONG_MAX;
    else
        shift(time, delay[1]);
}

uint64_t vk_clock_now_ns(void)
{
    int64_t now[2];
    vk_clock_gettime(CLOCK_MONOTONIC, now);
    return (uint64_t)(now[0] * SECOND_NS + now[1]);
}

/* The processor time of a thread is named by its id (a negative clock); the kernel knows another id. */
static struct thread *thread_of_clock(long clock)
{
    bool is_thread = (int)clock < 0 && (clock & 4) && (clock & 3) != 3;
    return is_thread ? vk_thread_by_vtid((uint32_t) ~((int)clock >> 3)) : NULL;
}

/* The processor time of a process is named in the same way. 0: of none. */
static long process_of_clock(long clock)
{
    bool is_process = (int)clock < 0 && !(clock & 4) && (clock & 3) != 3;
    return is_process ? vk_id_kernel(~((int)clock >> 3)) : 0;
}

long vk_clock_id(long clock)
{
    const struct thread *thread = thread_of_clock(clock);
    long process = process_of_clock(clock);
    if (thread)
        return (long)(~thread->tid << 3 | (clock & 7));
    return process ? (int)(~(uint32_t)process << 3 | (clock & 7)) : clock;
}

long vk_clock_getres(long clock, int64_t *time)
{
    return GATE->kernel_clock_getres((int)vk_clock_id((int)clock), time);
}

/* What the lost processes have used counts as time in the program. */
long vk_getrusage(long who, int64_t *usage)
{
    long result = raw2(SYS_getrusage, who, usage);
    if (result == 0 && vk_is_rank() && (who == RUSAGE_SELF || who == RUSAGE_THREAD)) {
        int64_t time[2] = {usage[0], usage[1] * 1000}; /* ru_utime */
        shift(time, offset_ns(who == RUSAGE_SELF ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_THREAD_CPUTIME_ID));
        usage[0] = time[0];
        usage[1] = time[1] / 1000;
    }
    return result;
}

long vk_times(int64_t *times)
{
    long now = raw1(SYS_times, times);
    if (times && vk_is_rank())
        times[0] += offset_ns(CLOCK_PROCESS_CPUTIME_ID) / TICK_NS; /* tms_utime */
    return now + offset_ns(CLOCK_MONOTONIC) / TICK_NS;
}

long vk_clock_gettime(long clock, int64_t *time)
{
    const struct thread *thread = thread_of_clock(clock);
    bool is_own = process_of_clock(clock) == (long)VK->pid && vk_is_rank();
    int64_t ns = thread ? thread->cpu_offset_ns : offset_ns(is_own ? CLOCK_PROCESS_CPUTIME_ID : clock);
    if ((int)clock < 0)
        clock = vk_clock_id(clock);
    int result = GATE->kernel_clock_gettime((int)clock, time);
    if (result == 0 && ns)
        shift(time, ns);
    return result;
}
