/* full.c - the tracker that names every page with content, by /proc/PID/pagemap. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "node-agent/capture/tracker.h"

/* Documentation/admin-guide/mm/pagemap.rst */
#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_SWAPPED (1ull << 62)
#define PAGEMAP_FILE (1ull << 61) /* the file's page, or shared memory: not a private copy */

#define ENTRIES_AT_ONCE 65536u

struct tracker {
    int pagemap;
    uint64_t *entries;
};

static struct tracker *full_create(pid_t pid, struct belay_error *err);
static void full_destroy(struct tracker *tracker);
static int full_collect(struct tracker *tracker, const struct mapping *mapping, tracker_run_f run,
                        void *context, struct belay_error *err);

const struct tracker_ops tracker_full = {
    .name = "full",
    .create = full_create,
    .destroy = full_destroy,
    .collect = full_collect,
};

static struct tracker *full_create(pid_t pid, struct belay_error *err)
{
    char name[64];
    struct tracker *tracker = calloc(1, sizeof *tracker);
    uint64_t *entries = malloc(ENTRIES_AT_ONCE * sizeof *entries);
    snprintf(name, sizeof name, "/proc/%d/pagemap", (int)pid);
    int fd = tracker && entries ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        belay_error_errno(err, "cannot open %s", name);
        free(entries);
        free(tracker);
        return NULL;
    }
    tracker->pagemap = fd;
    tracker->entries = entries;
    return tracker;
}

static void full_destroy(struct tracker *tracker)
{
    if (!tracker)
        return;
    int code = errno;
    close(tracker->pagemap);
    free(tracker->entries);
    free(tracker);
    errno = code;
}

static bool has_own_content(const struct mapping *mapping, uint64_t entry)
{
    bool is_there = entry & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED);
    return is_there && (mapping->content == MAPPING_CONTENT_OWN || !(entry & PAGEMAP_FILE));
}

static int full_collect(struct tracker *tracker, const struct mapping *mapping, tracker_run_f run,
                        void *context, struct belay_error *err)
{
    uint64_t start = mapping->region.start, end = mapping->region.end, run_start = 0;
    if (mapping->content == MAPPING_CONTENT_NONE)
        return 0;
    if (mapping->content == MAPPING_CONTENT_ALL)
        return run(context, start, end - start);
    for (uint64_t at = start; at < end;) {
        uint64_t pages = (end - at) / IMAGE_PAGE_BYTES;
        size_t bytes = (pages < ENTRIES_AT_ONCE ? pages : ENTRIES_AT_ONCE) * sizeof(uint64_t);
        ssize_t got = pread(tracker->pagemap, tracker->entries, bytes,
                            (off_t)(at / IMAGE_PAGE_BYTES * sizeof(uint64_t)));
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = ESRCH; /* the process has no memory any more */
        if (got < (ssize_t)sizeof(uint64_t))
            return belay_error_errno(err, "cannot read the page map");
        for (size_t i = 0; i < (size_t)got / sizeof(uint64_t); i++, at += IMAGE_PAGE_BYTES) {
            bool is_needed = has_own_content(mapping, tracker->entries[i]);
            if (is_needed && !run_start)
                run_start = at;
            if (!is_needed && run_start) {
                if (run(context, run_start, at - run_start) < 0)
                    return belay_error_errno(err, "cannot note pages");
                run_start = 0;
            }
        }
    }
    if (run_start && run(context, run_start, end - run_start) < 0)
        return belay_error_errno(err, "cannot note pages");
    return 0;
}
