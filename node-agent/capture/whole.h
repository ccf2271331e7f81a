/*
 * whole.h - copies pages of a process into a whole image, in which the address of a page gives its place.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_WHOLE_H
#define BELAY_NODE_AGENT_CAPTURE_WHOLE_H

#include <sys/types.h>

#include "common/image/image.h"
#include "common/util/error.h"
#include "node-agent/capture/maps.h"

/* Copy pages of `pid` into the image. May run in a pool thread. Returns 0, or -1 with err as copy_runs(). */
int whole_copy(pid_t pid, const struct maps *maps, const struct run_set *pages, int image,
               struct belay_error *err);

/* Remove pages from an image. Returns 0 or -1 with err. */
int whole_drop(const struct run_set *pages, int image, struct belay_error *err);

#endif
