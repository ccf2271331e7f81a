#include "node-agent/capture/entries.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/util/pagemap.h"

#define ENTRIES_AT_ONCE 8192u

static int add_own(int pagemap, const struct mapping *mapping, entries_is_written_f is_written,
                   struct tracker_pages *pages);
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

static int add_own(int pagemap, const struct mapping *mapping, entries_is_written_f is_written,
                   struct tracker_pages *pages)
{
    uint64_t entries[ENTRIES_AT_ONCE], at = mapping->region.start;
    while (at < mapping->region.end) {
        uint64_t left = (mapping->region.end - at) / IMAGE_PAGE_BYTES;
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
