/*
 * vk_child.h - children that a restart has not brought back: the program may still wait for them.
 * Freestanding.
 *
 * A child that had ended before the line, and had not been waited for, is waited for with the status that it
 * ended with. One that ran at the line is gone: it was killed (SIGKILL), as far as the program is told. Each
 * tells so once, as a child of the kernel's does.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_CHILD_H
#define BELAY_MPI_LAYER_LOWER_VK_CHILD_H

#include <stdbool.h>
#include <stdint.h>

struct vk_child {
    uint32_t known;   /* process id, as the program was told; 0: it has been waited for */
    uint32_t group;   /* the process group, as the program knows it */
    int32_t status;   /* as wait(2) tells it */
    uint32_t ran;     /* at the line */
    uint32_t is_gone; /* a restart has come since; else the kernel has it */
};

/* Note one more, at a line. False: no memory. */
bool vk_child_add(const struct vk_child *child);

/* A call that waits for children: wait4 or waitid. */
bool vk_child_is_wait(long nr);
/* ... without WNOHANG: its third and fourth argument. */
bool vk_child_is_blocking(long nr, long third, long fourth);
/*
 * The call, with arguments as wide as the kernel's, as far as children are meant that are gone. False: the
 * kernel is to be asked.
 */
bool vk_child_wait(long nr, const long args[6], long *result);
/* The kernel has given this id to a new child. */
void vk_child_forget(long id);

#endif
