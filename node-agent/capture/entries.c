#include "node-agent/capture/entries.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/util/pagemap.h"

#define ENTRIES_AT_ONCE 8192u
#define SPARSE_BYTES (1ull << 30)

static int add_own(int pagemap, const struct mapping *mapping, entries_is_written_f is_written,
                   struct tracker_pages *pages);
static int add_range(int pagemap, const struct mapping *mapping, const struct image_run *range,
                     entries_is_written_f is_written, struct tracker_pages *pages);
static int add_image(int pagemap, const struct mapping *mapping, const struct run_set *known,
                     entries_is_written_f is_written, struct tracker_pages *pages);
static bool has_own_content(const struct mapping *mapping, uint64_t entry);

int entries_open(pid_t pid, struct belay_error *err)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/pagemap", (int)pid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    return fd >= 0 ? fd : belay_error_errno(err, "cannot open %s", name);
}

int entries_collect(int pagemap, const struct mapping *mapping, const struct run_set *known,
                    entries_is_written_f is_written, struct tracker_pages *pages, struct belay_error *err)
{
    int rc = 0;
    switch (mapping->content) {
    case MAPPING_CONTENT_NONE:
        break;
    case MAPPING_CONTENT_ALL:
        rc = tracker_pages_add(pages, mapping);
        break;
    case MAPPING_CONTENT_OWN:
    case MAPPING_CONTENT_CHANGED:
        rc = add_own(pagemap, mapping, is_written, pages);
        break;
    case MAPPING_CONTENT_IMAGE:
        rc = is_written ? add_image(pagemap, mapping, known, is_written, pages)
                        : tracker_pages_add(pages, mapping);
        break;
    }
    return rc == 0 ? 0
                   : belay_error_errno(err, "cannot find the pages at %#llx",
                                       (unsigned long long)mapping->region.start);
}

/*
 * Where it is worth while to read entries: of address space that a program has reserved, little is memory. A
 * kernel without PAGEMAP_SCAN gives an entry for every page of it.
 */
static int find_populated(int pagemap, const struct image_region *region, struct run_set *where)
{
    struct pagemap_query query = {
        .start = region->start, .end = region->end, .any = PAGEMAP_PRESENT | PAGEMAP_SWAPPED};
    uint64_t bytes = region->end - region->start;
    if (bytes >= SPARSE_BYTES && pagemap_scan(pagemap, &query, runs_append_range, where) == 0)
        return 0;
    runs_release(where);
    return runs_append(where, region->start, bytes);
}

static int add_own(int pagemap, const struct mapping *mapping, entries_is_written_f is_written,
                   struct tracker_pages *pages)
{
    struct run_set where = {0};
    int rc = find_populated(pagemap, &mapping->region, &where);
    for (size_t i = 0; rc == 0 && i < where.count; i++)
        rc = add_range(pagemap, mapping, &where.runs[i], is_written, pages);
    runs_release(&where);
    return rc;
}

static int add_range(int pagemap, const struct mapping *mapping, const struct image_run *range,
                     entries_is_written_f is_written, struct tracker_pages *pages)
{
    uint64_t entries[ENTRIES_AT_ONCE], at = range->address, end = at + range->bytes;
    while (at < end) {
        uint64_t left = (end - at) / IMAGE_PAGE_BYTES;
        ssize_t count =
            pagemap_entries(pagemap, at, entries, left < ENTRIES_AT_ONCE ? left : ENTRIES_AT_ONCE);
        if (count < 0)
            return -1;
        for (ssize_t i = 0; i < count; i++, at += IMAGE_PAGE_BYTES) {
            if (!has_own_content(mapping, entries[i]))
                continue;
            bool is_dirty = !is_written || is_written(mapping, entries[i]);
            if (runs_append(&pages->present, at, IMAGE_PAGE_BYTES) < 0 ||
                (is_dirty && runs_append(&pages->dirty, at, IMAGE_PAGE_BYTES) < 0))
                return -1;
        }
    }
    return 0;
}

/* Its absent pages, and those that are the file's, are as the image has them. */
static int add_image(int pagemap, const struct mapping *mapping, const struct run_set *known,
                     entries_is_written_f is_written, struct tracker_pages *pages)
{
    struct tracker_pages own = {0};
    struct run_set present = {0};
    int rc = add_own(pagemap, mapping, is_written, &own);
    if (rc == 0)
        rc = runs_union(known, &own.present, &present);
    if (rc == 0)
        rc = runs_append_all(&pages->dirty, &own.dirty);
    if (rc == 0)
        rc = runs_append_all(&pages->present, &present);
    runs_release(&own.dirty);
    runs_release(&own.present);
    runs_release(&present);
    return rc;
}

static bool has_own_content(const struct mapping *mapping, uint64_t entry)
{
    bool is_there = entry & (PAGEMAP_ENTRY_PRESENT | PAGEMAP_ENTRY_SWAPPED);
    return is_there && (mapping->content == MAPPING_CONTENT_OWN || !(entry & PAGEMAP_ENTRY_FILE));
}
