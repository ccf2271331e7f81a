/*
 * copy.h - copies pages of another process.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_COPY_H
#define BELAY_NODE_AGENT_CAPTURE_COPY_H

#include <stddef.h>
#include <sys/types.h>

#include "common/image/image.h"
#include "common/util/error.h"
#include "node-agent/capture/maps.h"

/*
 * Copy runs of `pid` to `image` (the mapped image; each run goes to its data_offset). Pages beyond the end of
 * a mapped file have no content: zeros. Pages that process_vm_readv(2) may not read (PROT_NONE) are read
 * through /proc/PID/mem. May run in a pool thread. Returns 0, or -1 with err (ESRCH: the process is gone).
 */
int copy_runs(pid_t pid, const struct maps *maps, const struct image_run *runs, size_t count, char *image,
              struct belay_error *err);

#endif
