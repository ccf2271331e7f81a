/* full.c - the tracker that names every page with content, by /proc/PID/pagemap. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "node-agent/capture/tracker.h"

/* Documentation/admin-guide/mm/pagemap.rst */
#define ENTRY_PRESENT (1ull << 63)
#define ENTRY_SWAPPED (1ull << 62)
#define ENTRY_FILE (1ull << 61) /* the file's page, or shared memory: not a private copy */

#define ENTRIES_AT_ONCE 65536u

struct tracker {
    int pagemap;
    uint64_t *entries;
};

static bool full_works(void);
static struct tracker *full_create(pid_t pid, int uffd, struct belay_error *err);
static void full_destroy(struct tracker *tracker);
static int full_collect(struct tracker *tracker, const struct mapping *mapping, const struct run_set *known,
                        struct tracker_pages *pages, struct belay_error *err);
static int add(struct tracker_pages *pages, uint64_t start, uint64_t end, struct belay_error *err);

const struct tracker_ops tracker_full = {
    .name = "full",
    .works = full_works,
    .create = full_create,
    .destroy = full_destroy,
    .collect = full_collect,
};

static bool full_works(void)
{
    return true;
}

static struct tracker *full_create(pid_t pid, int uffd, struct belay_error *err)
{
    char name[64];
    struct tracker *tracker = calloc(1, sizeof *tracker);
    uint64_t *entries = malloc(ENTRIES_AT_ONCE * sizeof *entries);
    if (uffd >= 0)
        close(uffd);
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
    bool is_there = entry & (ENTRY_PRESENT | ENTRY_SWAPPED);
    return is_there && (mapping->content == MAPPING_CONTENT_OWN || !(entry & ENTRY_FILE));
}

static int full_collect(struct tracker *tracker, const struct mapping *mapping, const struct run_set *known,
                        struct tracker_pages *pages, struct belay_error *err)
{
    uint64_t start = mapping->region.start, end = mapping->region.end, run_start = 0;
    (void)known;
    if (mapping->content == MAPPING_CONTENT_NONE)
        return 0;
    if (mapping->content == MAPPING_CONTENT_ALL || mapping->content == MAPPING_CONTENT_IMAGE)
        return add(pages, start, end, err);
    for (uint64_t at = start; at < end;) {
        uint64_t left = (end - at) / IMAGE_PAGE_BYTES;
        size_t bytes = (left < ENTRIES_AT_ONCE ? left : ENTRIES_AT_ONCE) * sizeof(uint64_t);
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
                if (add(pages, run_start, at, err) < 0)
                    return -1;
                run_start = 0;
            }
        }
    }
    return run_start ? add(pages, run_start, end, err) : 0;
}

static int add(struct tracker_pages *pages, uint64_t start, uint64_t end, struct belay_error *err)
{
    if (runs_append(&pages->dirty, start, end - start) < 0 ||
        runs_append(&pages->present, start, end - start) < 0)
        return belay_error_errno(err, "cannot note pages");
    return 0;
}
