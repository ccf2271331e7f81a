/* streams.h - bring a rank's standard streams to the virtual kernel (vk_stream.h), at each launch. */
#ifndef BELAY_MPI_LAYER_LOWER_STREAMS_H
#define BELAY_MPI_LAYER_LOWER_STREAMS_H

#include "common/util/error.h"
#include "mpi-layer/lower/rank.h"

/*
 * Map the rank's part of the job's streams, and find out which of the process's descriptors are the
 * launcher's. Closes rank->streams_fd. Returns 0 or -1 with err.
 */
int streams_start(struct rank *rank, struct belay_error *err);

#endif
