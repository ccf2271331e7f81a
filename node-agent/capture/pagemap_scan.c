/*
 * pagemap_scan.c - the tracker that asks the kernel which pages were written (Linux 6.7).
 *
 * The rank makes a userfaultfd for asynchronous write protection; the agent registers the rank's mappings
 * with it, and each scan of the page table tells and arms again what was written. A mapping that is new, or
 * has lost its tracking (moved by mremap), refuses the scan: it is registered, and all its pages count as
 * written.
 *
 * The kernel scans fast (0.3 ms per GiB) when asked for written pages alone, but then also tells absent pages
 * of populated page tables, once; other questions cost 3 to 9 ms per GiB. So those are asked only of pages
 * that are not known to exist. A known page that was told may be absent by now (MADV_DONTNEED): it is copied
 * as zeros. One whose page table was freed with it is told by no scan: find_lost() looks for these.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/util/pagemap.h"
#include "node-agent/capture/tracker.h"

#define TABLE_BYTES (2ull << 20) /* mapped by one page table */

struct tracker {
    pid_t pid;
    int pagemap, uffd;
    bool
        has_swap; /* part of the process is in swap: an armed absent page cannot be told from a swapped one */
};

static struct tracker *scan_create(pid_t pid, int uffd, struct belay_error *err);
static void scan_destroy(struct tracker *tracker);
static int scan_collect(struct tracker *tracker, const struct mapping *mapping, const struct run_set *known,
                        struct tracker_pages *pages, struct belay_error *err);
static int collect_tracked(struct tracker *tracker, const struct mapping *mapping,
                           const struct run_set *known, struct tracker_pages *found);
static int collect_own(struct tracker *tracker, const struct run_set *known, const struct run_set *written,
                       struct tracker_pages *found);
static int collect_changed(struct tracker *tracker, const struct mapping *mapping,
                           const struct run_set *known, const struct run_set *written,
                           struct tracker_pages *found);
static int arm(struct tracker *tracker, const struct mapping *mapping, struct run_set *written, bool *is_new);
static int keep_existing(struct tracker *tracker, const struct run_set *of, bool but_file,
                         struct run_set *to);
static int find_lost(struct tracker *tracker, const struct run_set *known, const struct run_set *written,
                     struct run_set *lost);
static bool has_swap(pid_t pid);

const struct tracker_ops tracker_pagemap_scan = {
    .name = "pagemap_scan",
    .is_incremental = true,
    .works = pagemap_scan_works,
    .create = scan_create,
    .destroy = scan_destroy,
    .collect = scan_collect,
};

static struct tracker *scan_create(pid_t pid, int uffd, struct belay_error *err)
{
    char name[64];
    struct tracker *tracker = calloc(1, sizeof *tracker);
    snprintf(name, sizeof name, "/proc/%d/pagemap", (int)pid);
    int pagemap = uffd >= 0 ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (!tracker || pagemap < 0) {
        if (uffd < 0)
            belay_error_set(err, ENOTSUP, "process %d could not make a userfaultfd", (int)pid);
        else
            belay_error_errno(err, "cannot open %s", name);
        int code = errno;
        if (uffd >= 0)
            close(uffd);
        if (pagemap >= 0)
            close(pagemap);
        free(tracker);
        errno = code;
        return NULL;
    }
    *tracker = (struct tracker){.pid = pid, .pagemap = pagemap, .uffd = uffd};
    return tracker;
}

static void scan_destroy(struct tracker *tracker)
{
    if (!tracker)
        return;
    int code = errno;
    close(tracker->pagemap);
    close(tracker->uffd);
    free(tracker);
    errno = code;
}

static int scan_collect(struct tracker *tracker, const struct mapping *mapping, const struct run_set *known,
                        struct tracker_pages *pages, struct belay_error *err)
{
    uint64_t start = mapping->region.start, bytes = mapping->region.end - start;
    struct tracker_pages found = {0};
    int rc = 0;
    if (mapping->content == MAPPING_CONTENT_NONE)
        return 0;
    if (mapping->content == MAPPING_CONTENT_ALL) { /* others may write to it behind the page table's back */
        rc = runs_append(&found.dirty, start, bytes) < 0 || runs_append(&found.present, start, bytes) < 0 ? -1
                                                                                                          : 0;
    } else {
        tracker->has_swap = has_swap(tracker->pid);
        rc = collect_tracked(tracker, mapping, known, &found);
    }
    for (size_t i = 0; rc == 0 && i < found.dirty.count; i++)
        rc = runs_append(&pages->dirty, found.dirty.runs[i].address, found.dirty.runs[i].bytes);
    for (size_t i = 0; rc == 0 && i < found.present.count; i++)
        rc = runs_append(&pages->present, found.present.runs[i].address, found.present.runs[i].bytes);
    if (rc < 0)
        belay_error_errno(err, "cannot find the written pages at %#llx", (unsigned long long)start);
    runs_release(&found.dirty);
    runs_release(&found.present);
    return rc;
}

static int collect_tracked(struct tracker *tracker, const struct mapping *mapping,
                           const struct run_set *known, struct tracker_pages *found)
{
    static const struct run_set nothing;
    struct run_set written = {0};
    bool is_new;
    int rc = arm(tracker, mapping, &written, &is_new);
    if (rc == 0 && mapping->content == MAPPING_CONTENT_OWN)
        rc = collect_own(tracker, is_new ? &nothing : known, &written, found);
    else if (rc == 0)
        rc = collect_changed(tracker, mapping, known, &written, found);
    runs_release(&written);
    return rc;
}

/* Anonymous memory: its absent pages are zeros. */
static int collect_own(struct tracker *tracker, const struct run_set *known, const struct run_set *written,
                       struct tracker_pages *found)
{
    struct run_set changed = {0}, unknown = {0}, fresh = {0}, lost = {0}, kept = {0};
    int rc = -1;
    if (runs_intersect(written, known, &changed) == 0 && runs_subtract(written, known, &unknown) == 0 &&
        keep_existing(tracker, &unknown, false, &fresh) == 0 &&
        runs_union(&changed, &fresh, &found->dirty) == 0 && find_lost(tracker, known, written, &lost) == 0 &&
        runs_subtract(known, &lost, &kept) == 0 && runs_union(&kept, &found->dirty, &found->present) == 0)
        rc = 0;
    runs_release(&changed);
    runs_release(&unknown);
    runs_release(&fresh);
    runs_release(&lost);
    runs_release(&kept);
    return rc;
}

/*
 * A private mapping of a file: its absent pages are the file's. Of an image, nothing goes back to being the
 * file's (madvise is virtualised); of another file it may, so every page is asked.
 */
static int collect_changed(struct tracker *tracker, const struct mapping *mapping,
                           const struct run_set *known, const struct run_set *written,
                           struct tracker_pages *found)
{
    struct run_set whole = {0}, dirty = {0}, fresh = {0};
    int rc = -1;
    if (mapping->content == MAPPING_CONTENT_IMAGE) {
        rc = keep_existing(tracker, written, true, &found->dirty) < 0 ||
                     runs_union(known, &found->dirty, &found->present) < 0
                 ? -1
                 : 0;
    } else if (runs_append(&whole, mapping->region.start, mapping->region.end - mapping->region.start) == 0 &&
               keep_existing(tracker, &whole, true, &found->present) == 0 &&
               runs_intersect(&found->present, written, &dirty) == 0 &&
               runs_subtract(&found->present, known, &fresh) == 0 &&
               runs_union(&dirty, &fresh, &found->dirty) == 0) {
        rc = 0;
    }
    runs_release(&whole);
    runs_release(&dirty);
    runs_release(&fresh);
    return rc;
}

static int add_found(void *context, uint64_t start, uint64_t end)
{
    return runs_append(context, start, end - start);
}

/* Arm the mapping. *written is what was written, or all of it if it was not tracked yet (*is_new). */
static int arm(struct tracker *tracker, const struct mapping *mapping, struct run_set *written, bool *is_new)
{
    struct pagemap_query query = {
        .start = mapping->region.start, .end = mapping->region.end, .arm = true, .all = PAGEMAP_WRITTEN};
    *is_new = false;
    if (pagemap_scan(tracker->pagemap, &query, add_found, written) == 0)
        return 0;
    if (errno != EPERM)
        return -1;
    *is_new = true;
    runs_release(written);
    if (pagemap_register(tracker->uffd, query.start, query.end) < 0 ||
        pagemap_scan(tracker->pagemap, &query, NULL, NULL) < 0)
        return -1;
    return runs_append(written, query.start, query.end - query.start);
}

/* The pages of a set that exist, with content of their own if but_file; what is zeros anyway does not count.
 */
static int keep_existing(struct tracker *tracker, const struct run_set *of, bool but_file, struct run_set *to)
{
    for (size_t i = 0; i < of->count; i++) {
        struct pagemap_query query = {
            .start = of->runs[i].address,
            .end = of->runs[i].address + of->runs[i].bytes,
            .any = tracker->has_swap ? PAGEMAP_PRESENT | PAGEMAP_SWAPPED : PAGEMAP_PRESENT,
            .none = but_file ? PAGEMAP_ZERO | PAGEMAP_FILE : PAGEMAP_ZERO,
        };
        if (pagemap_scan(tracker->pagemap, &query, add_found, to) < 0)
            return -1;
    }
    return 0;
}

static int count_one(void *context, uint64_t start, uint64_t end)
{
    (void)start, (void)end;
    ++*(unsigned *)context;
    return 0;
}

/*
 * Known pages whose page table is gone. One page tells for all of its table: had it been emptied without
 * the table, it would be among the written ones.
 */
static int find_lost(struct tracker *tracker, const struct run_set *known, const struct run_set *written,
                     struct run_set *lost)
{
    struct run_set silent = {0};
    uint64_t table = UINT64_MAX;
    unsigned count = 0;
    int rc = runs_subtract(known, written, &silent);
    for (size_t i = 0; rc == 0 && i < silent.count; i++) {
        uint64_t end = silent.runs[i].address + silent.runs[i].bytes;
        for (uint64_t at = silent.runs[i].address, next; rc == 0 && at < end; at = next) {
            next = (at / TABLE_BYTES + 1) * TABLE_BYTES;
            next = next < end ? next : end;
            if (table != at / TABLE_BYTES) {
                struct pagemap_query query = {
                    .start = at, .end = at + IMAGE_PAGE_BYTES, .any = PAGEMAP_PRESENT | PAGEMAP_SWAPPED};
                table = at / TABLE_BYTES;
                count = 0;
                rc = pagemap_scan(tracker->pagemap, &query, count_one, &count);
            }
            if (rc == 0 && count == 0)
                rc = runs_append(lost, at, next - at);
        }
    }
    runs_release(&silent);
    return rc;
}

static bool has_swap(pid_t pid)
{
    char name[64], line[256];
    unsigned long kib = 1;
    snprintf(name, sizeof name, "/proc/%d/status", (int)pid);
    FILE *file = fopen(name, "re");
    while (file && fgets(line, sizeof line, file) && sscanf(line, "VmSwap: %lu kB", &kib) != 1)
        ;
    if (file)
        fclose(file);
    return kib > 0;
}
