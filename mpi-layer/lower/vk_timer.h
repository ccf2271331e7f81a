/*
 * vk_timer.h - POSIX timers, and what else runs out by a clock. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_TIMER_H
#define BELAY_MPI_LAYER_LOWER_VK_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct thread;

long vk_timer_syscall(long nr, long a, long b, long c, long d);
long vk_timerfd_settime(long fd, long flags, const int64_t *setting, int64_t *old);
/* Note what is left of those whose signals this thread notes: its own, and the main thread also the
 * process's. */
void vk_timers_note(const struct thread *self);
/* Has one of them run out since? */
bool vk_timers_have_run_out(const struct thread *self);
/* Make them again (false: the kernel refuses) / a forked child has none. */
bool vk_timers_restore(void);
void vk_timers_forget(void);
/* siginfo_t of a signal that a timer has sent: the timer's id becomes the application's. */
void vk_timer_rename(void *info);
/* Restart: turns what a timer had left into the moment when it is due, as the kernel counts. */
void vk_timer_due(long clock, int64_t left[2]);

#endif
