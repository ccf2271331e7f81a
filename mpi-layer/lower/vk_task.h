/*
 * vk_task.h - paths below /proc that name a thread or a process by its id. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_TASK_H
#define BELAY_MPI_LAYER_LOWER_VK_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is it a path below /proc by such an id? Then the one by the kernel's is in `to`. */
#define VK_TASK_PATH_BYTES 128
bool vk_task_path(const char *path, char to[]);
/* Calls that look at a path: stat, access, readlink and their kin. */
long vk_task_syscall(long nr, long a, long b, long c, long d, long e);
/* Decimal digits, at most 10, no zero behind them. Returns how many. */
size_t vk_task_put_number(char *to, uint32_t number);

#endif
