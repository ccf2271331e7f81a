/*
 * vk_settings.h - settings of the calling thread. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_SETTINGS_H
#define BELAY_MPI_LAYER_LOWER_VK_SETTINGS_H

#include "mpi-layer/lower/gate.h"

/* Read the settings of the thread / set those again that the program had changed since its start. */
void vk_settings_read(struct vk_settings *settings);
void vk_settings_restore(const struct vk_settings *noted, const struct vk_settings *start);
/* Before vk_settings_restore(), once, by the main thread of a restored process. */
void vk_settings_begin(void);

#endif
