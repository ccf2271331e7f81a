/*
 * vk_task.h - paths below /proc that name a thread by its id. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_TASK_H
#define BELAY_MPI_LAYER_LOWER_VK_TASK_H

#include <stdbool.h>

/* Is it a path below /proc by such an id? Then the one by the kernel's is in `to`. */
#define VK_TASK_PATH_BYTES 128
bool vk_task_path(const char *path, char to[]);

#endif
