/*
 * pagemap_scan.c - the tracker that asks the kernel which pages were written (Linux 6.7).
 *
 * The rank makes a userfaultfd for asynchronous write protection; the agent registers the rank's mappings
 * with it, and each scan of the page table tells and arms again what was written. A mapping that is new, or
 * has lost its tracking (moved by mremap), refuses the scan: it is registered, and all its pages count as
 * written.
 *
 * The kernel scans fast (0.3 ms per GiB) when asked for written pages alone, but then also tells, and marks,
 * absent pages of populated page tables; other questions cost 3 to 9 ms per GiB. So only pages that are known
 * to exist are scanned in this way. One of them that is told may be absent by now (MADV_DONTNEED): it is
 * copied as zeros. One whose page table was freed with it is told by no scan: find_lost() looks for these.
 *
 * A page on its way to another place in memory counts as swapped for a moment, and so does a mark.
 *
 * A huge page that was set aside (hugetlbfs) is armed as a whole or not at all: a scan that ends or begins
 * within one stops there. So their mappings are always scanned as wholes, whatever is known of their pages.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/util/pagemap.h"
#include "common/util/uffd.h"
#include "node-agent/capture/entries.h"
#include "node-agent/capture/huge.h"

#define TABLE_BYTES (2ull << 20) /* mapped by one page table */

#define EXISTS (PAGEMAP_PRESENT | PAGEMAP_SWAPPED)
#define MOST_GAPS 16u /* between known pages: more are looked through with one question */

struct tracker {
    int pagemap, uffd;
    const struct run_set *left; /* pages that are not armed; NULL: none */
    struct huge huge;
};

/* What is found in many mappings. */
struct many {
    struct run_set seen;        /* known pages that exist, in mappings that are tracked */
    struct run_set written;     /* ... of these */
    struct run_set fresh;       /* pages that were not known, in mappings that are tracked */
    struct run_set untracked;   /* ... in others */
    struct run_set apart;       /* mappings that had to be asked for alone */
    struct tracker_pages alone; /* ... what was found in them */
};

static struct tracker *scan_create(pid_t pid, int uffd, struct belay_error *err);
static void scan_destroy(struct tracker *tracker);
static int scan_collect(struct tracker *tracker, const struct mapping *mapping, const struct run_set *known,
                        struct tracker_pages *pages, struct belay_error *err);
static void scan_leave(struct tracker *tracker, const struct run_set *pages);
static int scan_collect_many(struct tracker *tracker, const struct mapping *mappings, size_t count,
                             const struct run_set *known, struct tracker_pages *pages,
                             struct belay_error *err);
static void scan_settle(struct tracker *tracker);
static void scan_give_up(struct tracker *tracker, uint64_t start, uint64_t end);
static int collect_tracked(struct tracker *tracker, const struct mapping *mapping,
                           const struct run_set *known, struct tracker_pages *found);
static int collect_own(struct tracker *tracker, const struct mapping *mapping, const struct run_set *known,
                       struct tracker_pages *found);
static int collect_huge(struct tracker *tracker, const struct mapping *mapping, struct tracker_pages *found);
static int collect_changed(struct tracker *tracker, const struct mapping *mapping,
                           const struct run_set *known, struct tracker_pages *found);
static int scan(struct tracker *tracker, const struct run_set *where, struct pagemap_query query,
                struct run_set *to);
static int scan_written(struct tracker *tracker, const struct run_set *where, const struct run_set *left,
                        struct pagemap_query query, struct run_set *to);
static int find_lost(struct tracker *tracker, const struct run_set *known, const struct run_set *written,
                     struct run_set *lost);
static int collect_alone(struct tracker *tracker, const struct mapping *mappings, size_t count,
                         const struct run_set *known, struct many *many);
static int ask_known(struct tracker *tracker, const struct run_set *known, struct many *many);
static int ask_unknown(struct tracker *tracker, const struct mapping *mappings, size_t count,
                       const struct run_set *known, struct many *many);

const struct tracker_ops tracker_pagemap_scan = {
    .name = "pagemap_scan",
    .is_incremental = true,
    .is_concurrent = true,
    .works = uffd_async_works,
    .create = scan_create,
    .destroy = scan_destroy,
    .collect = scan_collect,
    .leave = scan_leave,
    .give_up = scan_give_up,
    .collect_many = scan_collect_many,
    .settle = scan_settle,
};

static struct tracker *scan_create(pid_t pid, int uffd, struct belay_error *err)
{
    int pagemap = tracker_begin_uffd(pid, uffd, UFFD_MODE_ASYNC, err) == 0 ? entries_open(pid, err) : -1;
    struct tracker *tracker = pagemap >= 0 ? calloc(1, sizeof *tracker) : NULL;
    if (pagemap >= 0 && !tracker)
        belay_error_errno(err, "no memory for a tracker");
    if (!tracker) {
        int code = errno;
        if (uffd >= 0)
            close(uffd);
        if (pagemap >= 0)
            close(pagemap);
        errno = code;
        return NULL;
    }
    *tracker = (struct tracker){.pagemap = pagemap, .uffd = uffd};
    huge_init(&tracker->huge, pid, pagemap, uffd);
    return tracker;
}

static void scan_destroy(struct tracker *tracker)
{
    if (!tracker)
        return;
    int code = errno;
    huge_release(&tracker->huge);
    close(tracker->pagemap);
    close(tracker->uffd);
    free(tracker);
    errno = code;
}

static int scan_collect(struct tracker *tracker, const struct mapping *mapping, const struct run_set *known,
                        struct tracker_pages *pages, struct belay_error *err)
{
    struct tracker_pages found = {0};
    int rc = 0;
    if (mapping->content == MAPPING_CONTENT_NONE)
        return 0;
    if (mapping->content == MAPPING_CONTENT_ALL) { /* others may write to it behind the page table's back */
        rc = tracker_pages_add(&found, mapping);
    } else {
        rc = collect_tracked(tracker, mapping, known, &found);
    }
    if (rc == 0)
        rc = runs_append_all(&pages->dirty, &found.dirty);
    if (rc == 0)
        rc = runs_append_all(&pages->present, &found.present);
    if (rc < 0)
        belay_error_errno(err, "cannot find the written pages at %#llx",
                          (unsigned long long)mapping->region.start);
    runs_release(&found.dirty);
    runs_release(&found.present);
    return rc;
}

static void scan_leave(struct tracker *tracker, const struct run_set *pages)
{
    tracker->left = pages;
}

static void scan_give_up(struct tracker *tracker, uint64_t start, uint64_t end)
{
    huge_forget(&tracker->huge, start, end);
    uffd_unregister(tracker->uffd, start, end);
}

static void scan_settle(struct tracker *tracker)
{
    huge_restore(&tracker->huge);
}

static int collect_once(struct tracker *tracker, const struct mapping *mapping, const struct run_set *known,
                        struct tracker_pages *found)
{
    runs_release(&found->dirty);
    runs_release(&found->present);
    if (mapping->content != MAPPING_CONTENT_OWN)
        return collect_changed(tracker, mapping, known, found);
    return mapping->is_huge ? collect_huge(tracker, mapping, found)
                            : collect_own(tracker, mapping, known, found);
}

/* The pages of a mapping that may stay as they are. NULL: none. */
static const struct run_set *left_in(const struct tracker *tracker, const struct mapping *mapping)
{
    return mapping->is_huge ? NULL : tracker->left;
}

/*
 * EPERM: a part of the mapping is not tracked. If it cannot be registered, it may be gone already.
 *
 * A moved mapping takes the tracking from neighbours that the kernel has merged it with, but leaves their
 * pages marked as armed: they can be written meanwhile and stay marked. So all marks go before any page is
 * armed.
 */
static int collect_tracked(struct tracker *tracker, const struct mapping *mapping,
                           const struct run_set *known, struct tracker_pages *found)
{
    static const struct run_set nothing;
    const struct image_region *region = &mapping->region;
    int rc = collect_once(tracker, mapping, known, found);
    if (rc == 0 || errno != EPERM)
        return rc;
    if (uffd_register(tracker->uffd, UFFD_MODE_ASYNC, region->start, region->end) == 0 &&
        uffd_protect(tracker->uffd, region->start, region->end, false) < 0) /* it is changing just now */
        uffd_unregister(tracker->uffd, region->start, region->end);
    struct run_set whole = {0};
    struct pagemap_query armed = {.arm = true, .all = PAGEMAP_WRITTEN, .any = EXISTS};
    struct pagemap_query all = {.any = EXISTS, .none = PAGEMAP_ZERO};
    if (mapping->content != MAPPING_CONTENT_OWN)
        all.none |= PAGEMAP_FILE;
    runs_release(&found->dirty);
    runs_release(&found->present);
    rc = runs_append(&whole, region->start, region->end - region->start);
    if (rc == 0 && mapping->content == MAPPING_CONTENT_OWN)
        rc = huge_note(&tracker->huge, &whole);
    if (rc == 0)
        scan_written(tracker, &whole, left_in(tracker, mapping), armed,
                     NULL); /* may fail: it is told as a whole next time, too */
    if (rc == 0)
        rc = scan(tracker, &whole, all, &found->dirty);
    if (rc == 0)
        rc = runs_union(&found->dirty, mapping->content == MAPPING_CONTENT_IMAGE ? known : &nothing,
                        &found->present);
    runs_release(&whole);
    return rc;
}

/* Anonymous memory: its absent pages are zeros. */
static int collect_own(struct tracker *tracker, const struct mapping *mapping, const struct run_set *known,
                       struct tracker_pages *found)
{
    const struct pagemap_query fast = {.arm = true, .all = PAGEMAP_WRITTEN};
    const struct pagemap_query exact = {
        .arm = true, .all = PAGEMAP_WRITTEN, .any = EXISTS, .none = PAGEMAP_ZERO};
    struct run_set whole = {0}, unknown = {0}, changed = {0}, fresh = {0}, lost = {0}, kept = {0};
    int rc = -1;
    if (runs_append(&whole, mapping->region.start, mapping->region.end - mapping->region.start) == 0 &&
        runs_subtract(&whole, known, &unknown) == 0 &&
        scan_written(tracker, known, tracker->left, fast, &changed) == 0 &&
        huge_note(&tracker->huge, &unknown) == 0 && scan(tracker, &unknown, exact, &fresh) == 0 &&
        runs_union(&changed, &fresh, &found->dirty) == 0 && find_lost(tracker, known, &changed, &lost) == 0 &&
        runs_subtract(known, &lost, &kept) == 0 && runs_union(&kept, &found->dirty, &found->present) == 0)
        rc = 0;
    runs_release(&whole);
    runs_release(&unknown);
    runs_release(&changed);
    runs_release(&fresh);
    runs_release(&lost);
    runs_release(&kept);
    return rc;
}

/* Anonymous memory of huge pages that were set aside. */
static int collect_huge(struct tracker *tracker, const struct mapping *mapping, struct tracker_pages *found)
{
    struct run_set whole = {0}, existing = {0};
    int rc = -1;
    if (runs_append(&whole, mapping->region.start, mapping->region.end - mapping->region.start) == 0 &&
        scan(tracker, &whole, (struct pagemap_query){.any = EXISTS}, &existing) == 0 &&
        scan(tracker, &whole, (struct pagemap_query){.arm = true, .all = PAGEMAP_WRITTEN, .any = EXISTS},
             &found->dirty) == 0 &&
        runs_union(&existing, &found->dirty, &found->present) == 0)
        rc = 0;
    runs_release(&whole);
    runs_release(&existing);
    return rc;
}

/*
 * A private mapping of a file: its absent pages are the file's. Of an image, nothing goes back to being the
 * file's (madvise is virtualised); of another file it may, so every page is asked.
 */
static int collect_changed(struct tracker *tracker, const struct mapping *mapping,
                           const struct run_set *known, struct tracker_pages *found)
{
    const struct pagemap_query written = {
        .arm = true, .all = PAGEMAP_WRITTEN, .any = EXISTS, .none = PAGEMAP_FILE};
    const struct pagemap_query own = {.any = EXISTS, .none = PAGEMAP_ZERO | PAGEMAP_FILE};
    /* In swap, or given back: then it is the file's again, and only its mark is left. */
    const struct pagemap_query marked = {.all = PAGEMAP_SWAPPED, .none = PAGEMAP_FILE};
    struct run_set whole = {0}, changed = {0}, fresh = {0}, doubtful = {0};
    int rc = -1;
    if (runs_append(&whole, mapping->region.start, mapping->region.end - mapping->region.start) < 0 ||
        scan_written(tracker, &whole, left_in(tracker, mapping), written, &changed) < 0)
        goto done;
    if (mapping->content == MAPPING_CONTENT_IMAGE)
        rc = runs_copy(&changed, &found->dirty) < 0 ? -1 : runs_union(known, &changed, &found->present);
    else if (scan(tracker, &whole, own, &found->present) == 0 &&
             scan(tracker, &whole, marked, &doubtful) == 0 &&
             runs_subtract(&found->present, known, &fresh) == 0 &&
             runs_union(&fresh, &changed, &whole) == 0 && runs_union(&whole, &doubtful, &found->dirty) == 0 &&
             runs_union(&found->dirty, &found->present, &whole) == 0)
        rc = runs_copy(&whole, &found->present);
done:
    runs_release(&whole);
    runs_release(&changed);
    runs_release(&fresh);
    runs_release(&doubtful);
    return rc;
}

/* Ask the same of all these pages. to NULL: only arm them. */
static int scan(struct tracker *tracker, const struct run_set *where, struct pagemap_query query,
                struct run_set *to)
{
    for (size_t i = 0; i < where->count; i++) {
        query.start = where->runs[i].address;
        query.end = where->runs[i].address + where->runs[i].bytes;
        if (pagemap_scan(tracker->pagemap, &query, to ? runs_append_range : NULL, to) < 0)
            return -1;
    }
    return 0;
}

/*
 * The same of a query that arms, but for the pages that are left as they are. Those are asked whether they
 * are tracked, too: where they are not, a mark that they are armed means nothing.
 */
static int scan_written(struct tracker *tracker, const struct run_set *where, const struct run_set *left,
                        struct pagemap_query query, struct run_set *to)
{
    const struct image_run *last = where->count ? &where->runs[where->count - 1] : NULL;
    struct run_set near = {0}, unarmed = {0}, rest = {0}, more = {0}, found = {0};
    int rc = -1;
    if (last && left && runs_slice(left, where->runs[0].address, last->address + last->bytes, &near) < 0)
        return -1;
    if (near.count == 0)
        return scan(tracker, where, query, to);
    if (runs_intersect(where, &near, &unarmed) == 0 && runs_subtract(where, &near, &rest) == 0 &&
        scan(tracker, &rest, query, to ? &found : NULL) == 0) {
        query.arm = false;
        query.is_checked = true;
        rc = to ? scan(tracker, &unarmed, query, &more) : 0;
    }
    if (rc == 0 && to)
        rc = runs_union(&found, &more, to);
    runs_release(&near);
    runs_release(&unarmed);
    runs_release(&rest);
    runs_release(&more);
    runs_release(&found);
    return rc;
}

static int count_one(void *context, uint64_t start, uint64_t end)
{
    (void)start, (void)end;
    ++*(unsigned *)context;
    return 0;
}

static uint64_t end_of(const struct image_run *run)
{
    return run->address + run->bytes;
}

/*
 * Known pages whose page table is gone. One page tells of all of its table: had it been emptied without the
 * table, it would be among the written ones. A written one tells that there is a table; else the first page
 * is asked, and only if that is absent the others, too: while the process runs, it may have been emptied just
 * now.
 */
static int find_lost(struct tracker *tracker, const struct run_set *known, const struct run_set *written,
                     struct run_set *lost)
{
    struct run_set silent = {0}, suspects = {0}, existing = {0};
    uint64_t table = UINT64_MAX;
    size_t w = 0; /* the first written run that ends behind where the table begins */
    unsigned count = 0;
    int rc = runs_subtract(known, written, &silent);
    for (size_t i = 0; rc == 0 && i < silent.count; i++) {
        uint64_t end = silent.runs[i].address + silent.runs[i].bytes;
        for (uint64_t at = silent.runs[i].address, next; rc == 0 && at < end; at = next) {
            next = (at / TABLE_BYTES + 1) * TABLE_BYTES;
            next = next < end ? next : end;
            if (table != at / TABLE_BYTES) {
                struct pagemap_query query = {.start = at, .end = at + IMAGE_PAGE_BYTES, .any = EXISTS};
                table = at / TABLE_BYTES;
                for (; w < written->count && end_of(&written->runs[w]) <= table * TABLE_BYTES; w++)
                    ;
                count = w < written->count && written->runs[w].address < (table + 1) * TABLE_BYTES;
                rc = count ? 0 : pagemap_scan(tracker->pagemap, &query, count_one, &count);
            }
            if (rc == 0 && count == 0)
                rc = runs_append(&suspects, at, next - at);
        }
    }
    if (rc == 0)
        rc = scan(tracker, &suspects, (struct pagemap_query){.any = EXISTS}, &existing);
    if (rc == 0)
        rc = runs_subtract(&suspects, &existing, lost);
    runs_release(&silent);
    runs_release(&suspects);
    runs_release(&existing);
    return rc;
}

/* ---- many mappings at once ---- */

/*
 * One scan tells of all known pages which of them are tracked, and which were written; it passes over
 * mappings that are not tracked. Of these, and of those with pages that no scan tells of, each is collected
 * by itself.
 */
static int scan_collect_many(struct tracker *tracker, const struct mapping *mappings, size_t count,
                             const struct run_set *known, struct tracker_pages *pages,
                             struct belay_error *err)
{
    struct many many = {0};
    struct run_set whole = {0}, changed = {0}, lost = {0}, kept = {0}, dirty = {0}, present = {0};
    int rc = -1;
    if (ask_known(tracker, known, &many) == 0 && ask_unknown(tracker, mappings, count, known, &many) == 0 &&
        collect_alone(tracker, mappings, count, known, &many) == 0 &&
        runs_union(&many.written, &many.fresh, &changed) == 0 &&
        runs_union(&changed, &many.alone.dirty, &dirty) == 0 &&
        runs_subtract(known, &many.apart, &whole) == 0 && find_lost(tracker, &whole, &changed, &lost) == 0 &&
        runs_subtract(&whole, &lost, &kept) == 0 && runs_union(&kept, &many.alone.present, &whole) == 0 &&
        runs_union(&whole, &dirty, &present) == 0 && runs_append_all(&pages->dirty, &dirty) == 0 &&
        runs_append_all(&pages->present, &present) == 0)
        rc = 0;
    else
        belay_error_errno(err, "cannot find the written pages at %#llx",
                          (unsigned long long)mappings->region.start);
    struct run_set *const sets[] = {
        &many.seen, &many.written,       &many.fresh, &many.apart, &many.untracked, &many.alone.dirty,
        &whole,     &many.alone.present, &changed,    &lost,       &kept,           &dirty,
        &present};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        runs_release(sets[i]);
    return rc;
}

struct seen_pages {
    struct run_set seen, written;
};

static int note_seen(void *context, uint64_t start, uint64_t end, uint32_t categories)
{
    struct seen_pages *pages = context;
    if (!(categories & PAGEMAP_TRACKED))
        return 0;
    if ((categories & PAGEMAP_WRITTEN) && runs_append_range(&pages->written, start, end) < 0)
        return -1;
    return runs_append_range(&pages->seen, start, end);
}

static int look(struct tracker *tracker, const struct run_set *where, bool arm, struct seen_pages *pages)
{
    struct pagemap_query query = {.arm = arm, .is_lenient = true, .any = EXISTS | PAGEMAP_WRITTEN};
    for (size_t i = 0; i < where->count; i++) {
        query.start = where->runs[i].address;
        query.end = end_of(&where->runs[i]);
        if (pagemap_scan_told(tracker->pagemap, &query, PAGEMAP_TRACKED | PAGEMAP_WRITTEN, note_seen, pages) <
            0)
            return -1;
    }
    return 0;
}

/* Armed again, but for those that are left as they are. */
static int ask_known(struct tracker *tracker, const struct run_set *known, struct many *many)
{
    static const struct run_set nothing;
    const struct run_set *left = tracker->left ? tracker->left : &nothing;
    struct run_set unarmed = {0}, rest = {0};
    struct seen_pages some = {0}, others = {0};
    int rc = -1;
    if (runs_intersect(known, left, &unarmed) == 0 && runs_subtract(known, &unarmed, &rest) == 0 &&
        look(tracker, &rest, true, &some) == 0 && look(tracker, &unarmed, false, &others) == 0 &&
        runs_union(&some.seen, &others.seen, &many->seen) == 0 &&
        runs_union(&some.written, &others.written, &many->written) == 0)
        rc = 0;
    runs_release(&unarmed);
    runs_release(&rest);
    runs_release(&some.seen);
    runs_release(&some.written);
    runs_release(&others.seen);
    runs_release(&others.written);
    return rc;
}

/* Where to look for pages that are not known: between the known ones; if these lie scattered, everywhere. */
static int find_gaps(const struct tracker *tracker, const struct run_set *whole,
                     const struct run_set *unknown, struct run_set *gaps)
{
    static const struct run_set nothing;
    struct run_set armed = {0};
    if (unknown->count <= MOST_GAPS)
        return runs_copy(unknown, gaps);
    int rc = runs_subtract(whole, tracker->left ? tracker->left : &nothing, &armed);
    if (rc == 0)
        rc = runs_union(&armed, unknown, gaps);
    runs_release(&armed);
    return rc;
}

static int ask_unknown(struct tracker *tracker, const struct mapping *mappings, size_t count,
                       const struct run_set *known, struct many *many)
{
    const struct pagemap_query untracked = {.any = EXISTS, .none = PAGEMAP_TRACKED};
    const struct pagemap_query fresh = {
        .arm = true, .is_lenient = true, .all = PAGEMAP_WRITTEN, .any = EXISTS, .none = PAGEMAP_ZERO};
    struct run_set whole = {0}, unknown = {0}, gaps = {0};
    uint64_t start = mappings->region.start;
    int rc = -1;
    if (runs_append(&whole, start, mappings[count - 1].region.end - start) == 0 &&
        runs_subtract(&whole, known, &unknown) == 0 && find_gaps(tracker, &whole, &unknown, &gaps) == 0 &&
        huge_note(&tracker->huge, &unknown) == 0 && scan(tracker, &gaps, untracked, &many->untracked) == 0 &&
        scan(tracker, &gaps, fresh, &many->fresh) == 0)
        rc = 0;
    runs_release(&whole);
    runs_release(&unknown);
    runs_release(&gaps);
    return rc;
}

/* Does the set have a page in a mapping? Mappings are asked for in ascending order; *next: the run to begin
 * with. */
static bool has_page_in(const struct run_set *set, const struct mapping *mapping, size_t *next)
{
    while (*next < set->count && end_of(&set->runs[*next]) <= mapping->region.start)
        ++*next;
    return *next < set->count && set->runs[*next].address < mapping->region.end;
}

static int collect_one(struct tracker *tracker, const struct mapping *mapping, const struct run_set *known,
                       struct many *many)
{
    struct run_set part = {0};
    struct tracker_pages found = {0};
    int rc = -1;
    if (runs_slice(known, mapping->region.start, mapping->region.end, &part) == 0 &&
        runs_append(&many->apart, mapping->region.start, mapping->region.end - mapping->region.start) == 0 &&
        collect_tracked(tracker, mapping, &part, &found) == 0 &&
        runs_append_all(&many->alone.dirty, &found.dirty) == 0 &&
        runs_append_all(&many->alone.present, &found.present) == 0)
        rc = 0;
    runs_release(&part);
    runs_release(&found.dirty);
    runs_release(&found.present);
    return rc;
}

/* Mappings with known pages of which the scan has told nothing, or with pages that are not tracked. */
static int collect_alone(struct tracker *tracker, const struct mapping *mappings, size_t count,
                         const struct run_set *known, struct many *many)
{
    struct run_set silent = {0}, doubtful = {0};
    size_t next = 0;
    int rc = -1;
    if (runs_subtract(known, &many->seen, &silent) == 0 &&
        runs_union(&silent, &many->untracked, &doubtful) == 0)
        rc = 0;
    for (size_t i = 0; rc == 0 && next < doubtful.count && i < count; i++)
        if (has_page_in(&doubtful, &mappings[i], &next))
            rc = collect_one(tracker, &mappings[i], known, many);
    runs_release(&silent);
    runs_release(&doubtful);
    return rc;
}
