/*
 * own_path.h - the belay command of the installation that this program, LIBDIR/belay/PROGRAM, is part of.
 */
#ifndef BELAY_SLURM_PLUGIN_OWN_PATH_H
#define BELAY_SLURM_PLUGIN_OWN_PATH_H

#include <limits.h>

#include "common/util/error.h"

/* Returns 0 and fills path, or -1 with err. */
int own_path_of_belay(char path[PATH_MAX], struct belay_error *err);

#endif
