/*
 * vk_transfer.h - transfers of data that our signal has cut short go on with the rest (struct wait).
 * Freestanding, like all of the virtual kernel (vk.h).
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_TRANSFER_H
#define BELAY_MPI_LAYER_LOWER_VK_TRANSFER_H

#include <stdbool.h>

#include "mpi-layer/lower/gate.h"

/* May this call end with less than it was asked for because a signal has come? */
bool vk_transfer_is(long nr);

/* A transfer begins: nothing of it is done yet. */
void vk_transfer_begin(struct wait *wait);

/*
 * A part of it has ended with this result. What it has transferred is counted in wait->done. True: the call
 * is set up for the next part. `is_cut`: our signal came, so what is missing has to be waited for; otherwise
 * only a part that is whole is followed by another one.
 */
bool vk_transfer_goes_on(struct wait *wait, long result, bool is_cut);

/* Does this call (with its second argument) receive what may hold descriptors? */
bool vk_transfer_may_bring_fds(long nr, long message);

/* Before a call that may pass descriptors to another process: vk_fd_note_shared(), if it does. */
void vk_transfer_note_passed(long nr, long message);

/*
 * The last part has ended; `result` is that of the whole call. Header and descriptors that the last part has
 * received are handed to the application.
 */
void vk_transfer_end(const struct wait *wait, long result);

#endif
