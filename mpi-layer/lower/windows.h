/* windows.h - the windows of the address space that are the lower half's (common/image/layout.h). */
#ifndef BELAY_MPI_LAYER_LOWER_WINDOWS_H
#define BELAY_MPI_LAYER_LOWER_WINDOWS_H

#include "common/image/layout.h"
#include "common/util/error.h"

/*
 * Find out where this process lies by what it has mapped; nothing of the upper half may be there yet. Returns
 * 0 or -1 with err (/proc is not readable, a layout that is not known).
 */
int windows_find(struct layout *layout, struct belay_error *err);

#endif
