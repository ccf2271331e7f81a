/*
 * vk_watch.h - the files that the application watches by inotify: the kernel tells their numbers only, so
 * their paths are kept from the call on. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_WATCH_H
#define BELAY_MPI_LAYER_LOWER_VK_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct vk_watch {
    uint64_t inode;
    char *path; /* without symbolic links, as the kernel has resolved it */
    uint32_t room, is_used;
};

/* inotify_add_watch(2), with arguments as wide as the kernel's. */
long vk_watch_add(long fd, const char *path, long mask);

/*
 * At a line: the path under which a file of this number was watched last; NULL: there is none. Those that
 * nobody has asked for between `begin` and `end` are forgotten.
 */
const char *vk_watch_path(uint64_t inode);
void vk_watch_begin(void);
void vk_watch_end(void);

#endif
