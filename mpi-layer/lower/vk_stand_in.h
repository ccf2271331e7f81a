/*
 * vk_stand_in.h - opening our libraries in the place of MPI's. Freestanding, like vk.h.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_STAND_IN_H
#define BELAY_MPI_LAYER_LOWER_VK_STAND_IN_H

#include <stdbool.h>

/*
 * Is this a library of MPI's that we stand in for, or the installed one behind it, to be opened for
 * reading? The second opens it then, with what a call of open returns in *result.
 */
bool vk_stand_in_is(const char *path, long flags);
bool vk_stand_in_open(long folder, const char *path, long flags, long *result);

#endif
