/*
 * snapshot.h - the field of one step in an HDF5 file, written by all ranks together (parallel HDF5).
 *
 * It has the file attribute "step" and the dataset "field" (ny rows of nx doubles), and no times: equal
 * contents are equal bytes.
 */
#ifndef BELAY_APPS_HEAT_SNAPSHOT_H
#define BELAY_APPS_HEAT_SNAPSHOT_H

#include "apps/heat/block.h"

/* Write this rank's part of a field (local, with its halo) to path. Collective. Returns 0, or -1 with one
 * line in text. */
int snapshot_write(const char *path, const struct block *block, const double *local, long step, char *text,
                   int text_bytes);

#endif
