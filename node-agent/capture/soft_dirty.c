/*
 * soft_dirty.c - the tracker that reads the marks which the kernel puts on written pages
 * (Documentation/admin-guide/mm/soft-dirty.rst; CONFIG_MEM_SOFT_DIRTY).
 *
 * Marks are taken from all pages of the process at once, after they have been read. What is written in
 * between would be lost: the process has to stand still. Pages of a new mapping count as marked.
 *
 * Where mremap() moves whole page tables, pages get no mark at their new place, and come with their old ones.
 *
 * The page of zeros gets no mark: a page that was given back, and then read, does not look written. Like a
 * page that is shared with a forked child, it is not exclusively the process's; such pages count as written.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/util/pagemap.h"
#include "node-agent/capture/entries.h"

struct tracker {
    int pagemap, clear_refs;
};

static struct tracker *soft_create(pid_t pid, int uffd, struct belay_error *err);
static void soft_destroy(struct tracker *tracker);
static int soft_collect(struct tracker *tracker, const struct mapping *mapping, const struct run_set *known,
                        struct tracker_pages *pages, struct belay_error *err);
static int soft_rearm(struct tracker *tracker, struct belay_error *err);

const struct tracker_ops tracker_soft_dirty = {
    .name = "soft_dirty",
    .is_incremental = true,
    .misses_moves = true,
    .works = soft_dirty_works,
    .create = soft_create,
    .destroy = soft_destroy,
    .collect = soft_collect,
    .rearm = soft_rearm,
};

static struct tracker *soft_create(pid_t pid, int uffd, struct belay_error *err)
{
    char name[64];
    struct tracker *tracker = malloc(sizeof *tracker);
    if (uffd >= 0)
        close(uffd);
    if (!tracker) {
        belay_error_errno(err, "no memory for a tracker");
        return NULL;
    }
    tracker->pagemap = entries_open(pid, err);
    if (tracker->pagemap < 0) {
        free(tracker);
        return NULL;
    }
    snprintf(name, sizeof name, "/proc/%d/clear_refs", (int)pid);
    tracker->clear_refs = open(name, O_WRONLY | O_CLOEXEC);
    if (tracker->clear_refs < 0) {
        belay_error_errno(err, "cannot open %s", name);
        close(tracker->pagemap);
        free(tracker);
        return NULL;
    }
    return tracker;
}

static void soft_destroy(struct tracker *tracker)
{
    if (!tracker)
        return;
    int code = errno;
    close(tracker->pagemap);
    close(tracker->clear_refs);
    free(tracker);
    errno = code;
}

/* The kernel clears no mark of a huge page that was set aside, and sets none. */
static bool is_written(const struct mapping *mapping, uint64_t entry)
{
    bool is_own = (entry & PAGEMAP_ENTRY_EXCLUSIVE) || !(entry & PAGEMAP_ENTRY_PRESENT);
    return !is_own || mapping->is_huge || (entry & PAGEMAP_ENTRY_SOFT_DIRTY);
}

static int soft_collect(struct tracker *tracker, const struct mapping *mapping, const struct run_set *known,
                        struct tracker_pages *pages, struct belay_error *err)
{
    return entries_collect(tracker->pagemap, mapping, known, is_written, pages, err);
}

static int soft_rearm(struct tracker *tracker, struct belay_error *err)
{
    if (soft_dirty_clear(tracker->clear_refs) < 0)
        return belay_error_errno(err, "cannot clear soft-dirty marks");
    return 0;
}
