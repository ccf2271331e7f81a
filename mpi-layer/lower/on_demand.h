/*
 * on_demand.h - a rank is restored from an image of which parts are still to come (docs/restart.md): what is
 * mapped waits at pages that are missing, and what is copied is asked for first.
 */
#ifndef BELAY_MPI_LAYER_LOWER_ON_DEMAND_H
#define BELAY_MPI_LAYER_LOWER_ON_DEMAND_H

#include <stdint.h>

#include "common/image/runs.h"
#include "common/util/error.h"

/* Before anything is taken from the image in image_fd. All of the below does nothing if all of that is there.
 */
void on_demand_begin(int image_fd);

/* The run has been mapped, and not been touched: its pages may come later. Returns 0 or -1 with err. */
int on_demand_mapped(const struct image_run *run, struct belay_error *err);

/* Returns when the run is there, to be copied. */
void on_demand_await(const struct image_run *run);

/* All is mapped: from now on the agent serves whoever waits. */
void on_demand_ready(void);

#endif
