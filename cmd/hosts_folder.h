/*
 * hosts_folder.h - the folder below the run directory in which the sockets of a job's other hosts are. Each
 * belay run has one of its own, so that jobs of one user have several hosts at the same time.
 */
#ifndef BELAY_CMD_HOSTS_FOLDER_H
#define BELAY_CMD_HOSTS_FOLDER_H

#include <stddef.h>

#include "common/util/error.h"

/*
 * Take one that nobody has, and fill in its path. Returns a close-on-exec descriptor, or -1 with err: the
 * folder is taken as long as that, or a copy of it, is open. Who is done with it removes the folder first.
 */
int hosts_folder_take(char *path, size_t path_bytes, const char *rundir, struct belay_error *err);

#endif
