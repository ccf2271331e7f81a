/* peers.h - after a restart: ranks that were on one host go on knowing each other's process ids (vk_id.h). */
#ifndef BELAY_MPI_LAYER_LOWER_PEERS_H
#define BELAY_MPI_LAYER_LOWER_PEERS_H

#include "common/util/error.h"

/* All ranks call it, behind MPI_Init. Returns 0, or -1 with err. */
int peers_meet(struct belay_error *err);

#endif
