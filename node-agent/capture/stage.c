#include "node-agent/capture/stage.h"

#include <errno.h>

#include "node-agent/capture/copy.h"

static int merge(const struct run_set *a, const struct run_set *b, struct run_set *to);
static int locate(const struct run_set *staged, const struct run_set *pages, struct run_set *to);
static int choose_ahead(const struct memory *memory, const struct maps *maps,
                        const struct tracker_pages *pages, struct run_set *to);

int stage_outdate(struct memory *memory, const struct run_set *written)
{
    struct run_set current = {0};
    if (runs_subtract(&memory->current, written, &current) < 0)
        return -1;
    runs_release(&memory->current);
    memory->current = current;
    return 0;
}

int stage_place(struct memory *memory, const struct run_set *pages)
{
    struct run_set fresh = {0}, staged = {0};
    uint64_t next = memory->staged_bytes;
    int rc = runs_subtract(pages, &memory->staged, &fresh);
    for (size_t i = 0; rc == 0 && i < fresh.count; i++) {
        fresh.runs[i].data_offset = next;
        next += fresh.runs[i].bytes;
    }
    if (rc == 0)
        rc = merge(&memory->staged, &fresh, &staged);
    runs_release(&fresh);
    if (rc < 0)
        return -1;
    runs_release(&memory->staged);
    memory->staged = staged;
    memory->staged_bytes = next;
    return 0;
}

int stage_copy(struct memory *memory, const struct maps *maps, const struct run_set *pages,
               uint64_t *copied_bytes, struct belay_error *err)
{
    struct run_set rest = {0}, placed = {0}, current = {0};
    int rc = -1;
    if (runs_subtract(pages, &memory->current, &rest) < 0 || locate(&memory->staged, &rest, &placed) < 0 ||
        runs_union(&memory->current, &rest, &current) < 0) {
        belay_error_errno(err, "cannot note pages");
        goto done;
    }
    rc = copy_runs(memory->pid, maps, placed.runs, placed.count, memory->buffer.memory, err);
    if (rc < 0)
        goto done;
    *copied_bytes += runs_bytes(&rest);
    runs_release(&memory->current);
    memory->current = current;
    current = (struct run_set){0};
done:
    runs_release(&rest);
    runs_release(&placed);
    runs_release(&current);
    return rc;
}

int stage_ahead(struct memory *memory, const struct maps *maps, const struct tracker_pages *pages,
                uint64_t room_bytes, uint64_t *copied_bytes, struct belay_error *err)
{
    struct run_set chosen = {0};
    struct belay_error ignored;
    int rc = choose_ahead(memory, maps, pages, &chosen);
    if (rc < 0)
        belay_error_errno(err, "cannot note pages");
    if (rc == 0 && memory->staged_bytes + runs_bytes(&chosen) <= room_bytes) {
        rc = stage_place(memory, &chosen);
        if (rc == 0)
            rc = buffer_reserve(&memory->buffer, memory->staged_bytes, err);
        if (rc == 0) /* a page that has gone meanwhile spoils this round, not the line */
            stage_copy(memory, maps, &chosen, copied_bytes, &ignored);
    }
    runs_release(&chosen);
    return rc;
}

/* Two sets without common pages, each run with its place. */
static int merge(const struct run_set *a, const struct run_set *b, struct run_set *to)
{
    size_t i = 0, j = 0;
    while (i < a->count || j < b->count) {
        bool is_a = j == b->count || (i < a->count && a->runs[i].address < b->runs[j].address);
        if (runs_push(to, is_a ? &a->runs[i++] : &b->runs[j++]) < 0) {
            runs_release(to);
            return -1;
        }
    }
    return 0;
}

/* The pages, all of which are staged, with their places. */
static int locate(const struct run_set *staged, const struct run_set *pages, struct run_set *to)
{
    for (size_t i = 0; i < pages->count; i++) {
        uint64_t at = pages->runs[i].address, end = at + pages->runs[i].bytes;
        for (size_t p = runs_find(staged, at); at < end; p++) {
            if (p == staged->count || staged->runs[p].address > at) {
                errno = EINVAL;
                return -1;
            }
            const struct image_run *piece = &staged->runs[p];
            uint64_t stop = piece->address + piece->bytes < end ? piece->address + piece->bytes : end;
            struct image_run run = {at, stop - at, piece->data_offset + at - piece->address};
            if (runs_push(to, &run) < 0)
                return -1;
            at = stop;
        }
    }
    return 0;
}

static int choose_ahead(const struct memory *memory, const struct maps *maps,
                        const struct tracker_pages *pages, struct run_set *to)
{
    struct run_set blind = {0}, there = {0}, seen = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < maps->count; i++) {
        const struct image_region *region = &maps->mappings[i].region;
        if (maps->mappings[i].content == MAPPING_CONTENT_ALL)
            rc = runs_append(&blind, region->start, region->end - region->start);
    }
    if (rc == 0 &&
        (runs_intersect(&memory->pending, &pages->present, &there) < 0 ||
         runs_subtract(&there, &blind, &seen) < 0 || runs_subtract(&seen, &memory->current, to) < 0))
        rc = -1;
    runs_release(&blind);
    runs_release(&there);
    runs_release(&seen);
    return rc;
}
