/*
 * sockets.h - pairs of sockets (socketpair(2)) with both ends in the program, or whose other end nobody has
 * any more: made again with what they held.
 */
#ifndef BELAY_MPI_LAYER_LOWER_SOCKETS_H
#define BELAY_MPI_LAYER_LOWER_SOCKETS_H

#include <stdbool.h>

#include "mpi-layer/lower/gate.h"

/*
 * Note one end, as special_note() does. Nothing is noted of what cannot be made again: other sockets, and
 * what holds descriptors on their way.
 */
void sockets_note(struct fd_record *record);

/*
 * When all are noted, and when all are restored: can it be made again? What is looked up for that, and by
 * sockets_restore(), has to be forgotten when the notes change.
 */
bool sockets_are_whole(const struct fd_record *record);
void sockets_forget(void);

/* Make it again with its other end. False: that is not in the program, or nothing was noted. */
bool sockets_restore(const struct fd_record *record);

#endif
