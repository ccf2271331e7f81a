/*
 * vk_image.h - memory mapped from the image, which the application finds as anonymous memory.
 * Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_IMAGE_H
#define BELAY_MPI_LAYER_LOWER_VK_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

/* First the inode of the image, then the parts that are mapped from it. */
void vk_image_begin(uint64_t inode);
void vk_image_add(uint64_t start, uint64_t end);
bool vk_image_is_used(void);
/* What is mapped from the image in a range becomes anonymous memory with the same contents. */
long vk_image_leave(uint64_t start, uint64_t bytes);
/* madvise(2), of any mapping. */
long vk_madvise(uint64_t start, uint64_t bytes, long advice);
/* Sealed memory can be neither replaced nor unmapped: it becomes anonymous before. */
long vk_mseal(uint64_t start, uint64_t bytes, long flags);

#endif
