/*
 * vk_maps.h - what is mapped, as the kernel tells it (/proc/self/maps). Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_MAPS_H
#define BELAY_MPI_LAYER_LOWER_VK_MAPS_H

#include <stdbool.h>
#include <stdint.h>

/* The first mapping in [from, to), clipped to it; of this inode, or of any. */
#define VK_MAPS_ANY UINT64_MAX
struct vk_part {
    uint64_t start, end, inode; /* 0: anonymous */
    long prot;
    bool is_private;
};
bool vk_maps_find(uint64_t from, uint64_t to, uint64_t inode, struct vk_part *part);
/* The path of what is mapped at an address, VK_MAPS_PATH_BYTES at most. False: none. */
#define VK_MAPS_PATH_BYTES 4096
bool vk_maps_path(uint64_t address, char path[]);
/* All mappings in their order, until visit() returns true. */
void vk_maps_walk(bool (*visit)(const struct vk_part *part, void *context), void *context);

#endif
