#include "node-agent/capture/tracker.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* The best first. */
static const struct tracker_ops *const trackers[] = {&tracker_pagemap_scan, &tracker_soft_dirty,
                                                     &tracker_bookkeeping, &tracker_full};

#define TRACKERS (sizeof trackers / sizeof trackers[0])

/* Whether each works here, once it has been tried. */
static enum { UNKNOWN = 0, WORKS, FAILS } found[TRACKERS];

static bool does_work(size_t which)
{
    if (found[which] == UNKNOWN)
        found[which] = trackers[which]->works() ? WORKS : FAILS;
    return found[which] == WORKS;
}

void tracker_try_all(void)
{
    for (size_t i = 0; i < TRACKERS; i++)
        does_work(i);
}

int tracker_pages_add(struct tracker_pages *pages, const struct mapping *mapping)
{
    uint64_t start = mapping->region.start, bytes = mapping->region.end - start;
    return runs_append(&pages->dirty, start, bytes) < 0 ? -1 : runs_append(&pages->present, start, bytes);
}

int tracker_begin_uffd(pid_t pid, int uffd, enum uffd_mode mode, struct belay_error *err)
{
    if (uffd < 0)
        return belay_error_set(err, ENOTSUP, "process %d could not make a userfaultfd", (int)pid);
    if (uffd_begin(uffd, mode) < 0)
        return belay_error_errno(err, "cannot use the userfaultfd of process %d", (int)pid);
    return 0;
}

const struct tracker_ops *tracker_choose(const char *name, struct belay_error *err)
{
    bool is_auto = !name || !*name || !strcmp(name, "auto");
    for (size_t i = 0; i < TRACKERS; i++) {
        if (!is_auto && strcmp(name, trackers[i]->name))
            continue;
        if (does_work(i))
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
