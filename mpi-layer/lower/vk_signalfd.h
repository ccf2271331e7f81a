/*
 * vk_signalfd.h - what a signalfd tells of signals: the ids of senders and timers. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_SIGNALFD_H
#define BELAY_MPI_LAYER_LOWER_VK_SIGNALFD_H

#include <stdbool.h>
#include <stdint.h>

/* Does the call read from a signalfd, in a process whose ids are not the kernel's any more? */
bool vk_signalfd_is_read(long nr, long fd);
/* It has read so many bytes: the senders and the timers as the application knows them. */
void vk_signalfd_rename(long nr, const long args[6], long bytes);

#endif
