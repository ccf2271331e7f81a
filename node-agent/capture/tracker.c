#include "node-agent/capture/tracker.h"

#include <errno.h>
#include <string.h>

/* The best first. */
static const struct tracker_ops *const trackers[] = {&tracker_pagemap_scan, &tracker_soft_dirty,
                                                     &tracker_bookkeeping, &tracker_full};

const struct tracker_ops *tracker_choose(const char *name, struct belay_error *err)
{
    bool is_auto = !name || !*name || !strcmp(name, "auto");
    for (size_t i = 0; i < sizeof trackers / sizeof trackers[0]; i++) {
        if (!is_auto && strcmp(name, trackers[i]->name))
            continue;
        if (trackers[i]->works())
            return trackers[i];
        if (!is_auto) {
            belay_error_set(err, ENOTSUP,
                            "this kernel does not offer the tracker %s to this user ('belay doctor' shows "
                            "what it offers)",
                            name);
            return NULL;
        }
    }
    belay_error_set(err, EINVAL,
                    "there is no tracker '%s': pagemap_scan, soft_dirty, bookkeeping, full or auto", name);
    return NULL;
}
