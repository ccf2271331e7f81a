/*
 * vk_exec.h - execve and execveat. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_EXEC_H
#define BELAY_MPI_LAYER_LOWER_VK_EXEC_H

#include <stdint.h>

/*
 * The call, in the handler of a trap whose frame has this signal mask; arguments as of the call. First,
 * once: the variables that the process was started with, the path of libbelay.so, and which variable says
 * which rank this is (NULL: none). They must stay.
 */
long vk_exec(long nr, const uint64_t *arguments, uint64_t mask);
void vk_exec_start(char *const *variables, const char *preload, const char *launched);

#endif
