#include "node-agent/capture/stage.h"

#include <errno.h>

#include "node-agent/capture/copy.h"
#include "node-agent/capture/crew.h"
#include "node-agent/capture/whole.h"

#define COPY_NS_PER_MIB 700000ull   /* about */
#define FORECAST_BYTES (8ull << 20) /* of less, copying is faster than a forecast */
#define PIECE_BYTES (64ull << 20)   /* copied ahead in pieces: what is done stays done if the next fails */

/* Where pages are copied from and to. */
struct placing {
    const struct memory *memory;
    const struct maps *maps;
};

static int merge(const struct run_set *a, const struct run_set *b, struct run_set *to);
static int locate(const struct run_set *staged, const struct run_set *pages, struct run_set *to);
static int copy_placed(void *context, const struct run_set *pages, struct belay_error *err);
static int choose_ahead(const struct memory *memory, const struct maps *maps,
                        const struct tracker_pages *pages, struct run_set *stale, struct run_set *chosen);
static bool is_in_vain(const struct memory *memory, uint64_t bytes);
static int copy_pieces(struct memory *memory, const struct maps *maps, const struct run_set *pages,
                       const bool *is_cancelled, uint64_t *copied_bytes, struct belay_error *err);
static uint64_t take_piece(const struct run_set *pages, uint64_t from, struct run_set *piece);

int stage_outdate(struct memory *memory, const struct run_set *written)
{
    struct run_set current = {0}, twice = {0}, again = {0}, told = {0};
    int rc = -1;
    if (runs_subtract(&memory->current, written, &current) == 0 &&
        runs_intersect(&memory->told, written, &twice) == 0 &&
        runs_union(&memory->again, &twice, &again) == 0 && runs_union(&memory->told, written, &told) == 0) {
        runs_move(&current, &memory->current);
        runs_move(&again, &memory->again);
        runs_move(&told, &memory->told);
        rc = 0;
    }
    runs_release(&current);
    runs_release(&twice);
    runs_release(&again);
    runs_release(&told);
    return rc;
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
    runs_move(&staged, &memory->staged);
    memory->staged_bytes = next;
    return 0;
}

int stage_reserve(struct memory *memory, uint64_t more_bytes, struct belay_error *err)
{
    if (memory_has_base(memory))
        return buffer_reserve(&memory->buffer, memory->staged_bytes + more_bytes, err);
    if (memory->image < 0)
        memory->image = image_make_memfd(err);
    return memory->image < 0 ? -1 : 0;
}

int stage_copy(struct memory *memory, const struct maps *maps, const struct run_set *pages, unsigned threads,
               uint64_t *copied_bytes, struct belay_error *err)
{
    struct run_set rest = {0}, current = {0};
    int rc = -1;
    if (runs_subtract(pages, &memory->current, &rest) < 0 ||
        runs_union(&memory->current, &rest, &current) < 0) {
        belay_error_errno(err, "cannot note pages");
        goto done;
    }
    struct placing placing = {memory, maps};
    rc = crew_copy(&rest, threads, copy_placed, &placing, err);
    if (rc < 0)
        goto done;
    *copied_bytes += runs_bytes(&rest);
    runs_move(&current, &memory->current);
done:
    runs_release(&rest);
    runs_release(&current);
    return rc;
}

int stage_ahead(struct memory *memory, const struct maps *maps, const struct tracker_pages *pages,
                const struct stage_limits *limits, uint64_t *copied_bytes, struct belay_error *err)
{
    struct run_set stale = {0}, chosen = {0}, fresh = {0};
    int rc = choose_ahead(memory, maps, pages, &stale, &chosen);
    if (rc == 0)
        rc = runs_subtract(&stale, &memory->staged, &fresh); /* what was written again has its place */
    uint64_t bytes = runs_bytes(&chosen), more_bytes = runs_bytes(&fresh);
    uint64_t need = memory->staged_bytes + more_bytes;
    if (rc < 0)
        belay_error_errno(err, "cannot note pages");
    if (rc == 0 && need <= limits->room_bytes) /* for the pause, too: making memory takes long */
        rc = stage_reserve(memory, more_bytes, err);
    if (rc == 0 && bytes <= limits->most_bytes && need <= limits->room_bytes &&
        !(limits->is_repeated && is_in_vain(memory, bytes))) {
        rc = stage_place(memory, &chosen);
        if (rc == 0)
            rc = copy_pieces(memory, maps, &chosen, limits->is_cancelled, copied_bytes, err);
    }
    runs_release(&stale);
    runs_release(&chosen);
    runs_release(&fresh);
    return rc;
}

int stage_trim(struct memory *memory, const struct run_set *present, struct belay_error *err)
{
    struct run_set gone = {0};
    if (runs_subtract(&memory->staged, present, &gone) < 0)
        return belay_error_errno(err, "cannot note pages");
    int rc = whole_drop(&gone, memory->image, err);
    runs_release(&gone);
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

/* By any thread of a crew. */
static int copy_placed(void *context, const struct run_set *pages, struct belay_error *err)
{
    const struct placing *placing = context;
    const struct memory *memory = placing->memory;
    struct run_set placed = {0};
    if (!memory_has_base(memory))
        return whole_copy(memory->pid, placing->maps, pages, memory->image, err);
    int rc = locate(&memory->staged, pages, &placed);
    if (rc < 0)
        belay_error_errno(err, "cannot note pages");
    else
        rc = copy_runs(memory->pid, placing->maps, placed.runs, placed.count, memory->buffer.memory, err);
    runs_release(&placed);
    return rc;
}

/* stale: all that the pause would have to copy; chosen: of these, what is worth copying now. */
static int choose_ahead(const struct memory *memory, const struct maps *maps,
                        const struct tracker_pages *pages, struct run_set *stale, struct run_set *chosen)
{
    struct run_set blind = {0}, there = {0}, cool = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < maps->count; i++) {
        const struct image_region *region = &maps->mappings[i].region;
        if (maps->mappings[i].content == MAPPING_CONTENT_ALL)
            rc = runs_append(&blind, region->start, region->end - region->start);
    }
    if (rc == 0 &&
        (runs_intersect(&memory->pending, &pages->present, &there) < 0 ||
         runs_subtract(&there, &memory->current, stale) < 0 ||
         runs_subtract(stale, &memory->hot, &cool) < 0 || runs_subtract(&cool, &blind, chosen) < 0))
        rc = -1;
    runs_release(&blind);
    runs_release(&there);
    runs_release(&cool);
    return rc;
}

/* The process writes so fast that most of it will be out of date when it is copied. */
static bool is_in_vain(const struct memory *memory, uint64_t bytes)
{
    return bytes >= FORECAST_BYTES &&
           faults_forecast(memory->pid, (bytes >> 20) * COPY_NS_PER_MIB) >= bytes / 4 * 3;
}

/* A page that has gone meanwhile spoils its piece, not the line. */
static int copy_pieces(struct memory *memory, const struct maps *maps, const struct run_set *pages,
                       const bool *is_cancelled, uint64_t *copied_bytes, struct belay_error *err)
{
    struct belay_error ignored;
    struct run_set piece = {0};
    uint64_t from = 0;
    int rc = 0;
    while (rc == 0 && from != UINT64_MAX && !__atomic_load_n(is_cancelled, __ATOMIC_RELAXED)) {
        from = take_piece(pages, from, &piece);
        if (from == 0)
            rc = belay_error_errno(err, "cannot note pages");
        else if (stage_copy(memory, maps, &piece, 1, copied_bytes, &ignored) < 0 && ignored.code == ESRCH)
            rc = belay_error_set(err, ignored.code, "%s", ignored.text);
    }
    runs_release(&piece);
    return rc;
}

/* The next pages from an address on. Returns where they end, UINT64_MAX: these were the last, 0: ENOMEM. */
static uint64_t take_piece(const struct run_set *pages, uint64_t from, struct run_set *piece)
{
    uint64_t bytes = 0, end = UINT64_MAX;
    for (size_t i = runs_find(pages, from); i < pages->count && end == UINT64_MAX; i++) {
        const struct image_run *run = &pages->runs[i];
        uint64_t at = run->address > from ? run->address : from, left = run->address + run->bytes - at;
        if (bytes + left > PIECE_BYTES)
            end = at + PIECE_BYTES - bytes;
        bytes += left;
    }
    return runs_slice(pages, from, end, piece) < 0 ? 0 : end;
}
