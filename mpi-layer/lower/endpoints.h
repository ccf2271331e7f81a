/*
 * endpoints.h - sockets that are no pair (sockets.h): made again with their options, bound to their names,
 * listening, or aimed at the same receiver. A connection to another process is not to be had again: its
 * socket is one whose other side has broken it off, which programs of the network know.
 */
#ifndef BELAY_MPI_LAYER_LOWER_ENDPOINTS_H
#define BELAY_MPI_LAYER_LOWER_ENDPOINTS_H

#include <stdbool.h>

#include "mpi-layer/lower/gate.h"

/* Note one, as special_note() does. Nothing is noted of families that are not known here. */
void endpoints_note(struct fd_record *record);
/* Can it be made again as it was? */
bool endpoints_are_whole(const struct fd_record *record);
/* Make it again. False: that cannot be done, or nothing was noted. `messages`: for lines to the user. */
bool endpoints_restore(const struct fd_record *record, int messages);

#endif
