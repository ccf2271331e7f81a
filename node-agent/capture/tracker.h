/*
 * tracker.h - which pages of a rank have to be captured at a line: one interface, several ways.
 *
 * A tracker looks at one process. collect() is called for each mapping while
 * the process stands still; it hands out the pages whose content is needed, in ascending runs, and
 * begins to track anew. `full` tracks nothing and always names every page that has content.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_TRACKER_H
#define BELAY_NODE_AGENT_CAPTURE_TRACKER_H

#include <stdint.h>
#include <sys/types.h>

#include "common/util/error.h"
#include "node-agent/capture/maps.h"

struct tracker;

/* Takes a run of pages; returns 0, or -1 with errno to stop. */
typedef int (*tracker_run_f)(void *context, uint64_t address, uint64_t bytes);

struct tracker_ops {
    const char *name;
    /* A tracker of a process. NULL with err. */
    struct tracker *(*create)(pid_t pid, struct belay_error *err);
    /* Accepts NULL. */
    void (*destroy)(struct tracker *tracker);
    /* Returns 0 or -1 with err (ESRCH: the process is gone). Called from a pool thread. */
    int (*collect)(struct tracker *tracker, const struct mapping *mapping, tracker_run_f run, void *context,
                   struct belay_error *err);
};

extern const struct tracker_ops tracker_full;

#endif
