/*
 * vk_clock.h - the application's clocks. Times are struct timespec, as two numbers: seconds, nanoseconds.
 * Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_CLOCK_H
#define BELAY_MPI_LAYER_LOWER_VK_CLOCK_H

#include <stdint.h>

long vk_clock_gettime(long clock, int64_t *time);
long vk_clock_getres(long clock, int64_t *time);
long vk_getrusage(long who, int64_t *usage);
long vk_times(int64_t *times);
uint64_t vk_clock_now_ns(void); /* the application's CLOCK_MONOTONIC */
/* A moment by the application's clock as the kernel counts. */
void vk_clock_to_kernel(long clock, int64_t time[2]);
/* The moment by CLOCK_MONOTONIC that is `delay` from now. */
void vk_clock_after(int64_t time[2], const int64_t delay[2]);
/* The kernel's id of a clock: another one for the processor time of a thread or a process. */
long vk_clock_id(long clock);

#endif
