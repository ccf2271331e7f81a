/*
 * vk_place.h - free places for the application's mappings. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_PLACE_H
#define BELAY_MPI_LAYER_LOWER_VK_PLACE_H

#include <stdint.h>

/* Areas of the address map (map.h): of anonymous memory, of files, and below 2 GiB. */
enum vk_place { VK_PLACE_NONE = 0, VK_PLACE_ANON, VK_PLACE_FILES, VK_PLACE_LOW };

/* Map at the next free place of an area, with an alignment. Returns the address, or -ENOMEM: it is full. */
long vk_place(enum vk_place where, uint64_t bytes, long prot, long flags, long fd, long offset,
              uint64_t align);
/* The same of anonymous memory wherever there is room, in the area for it or beyond. */
long vk_place_anon(uint64_t bytes, long prot, long flags, long fd, long offset, uint64_t align);
/* A large mapping starts at a huge page's boundary, as the kernel would do. */
uint64_t vk_place_alignment(uint64_t bytes);

#endif
