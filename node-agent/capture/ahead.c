#include "node-agent/capture/ahead.h"

#include <errno.h>

#include "node-agent/capture/memory_state.h"

#define COPY_NS_PER_MIB 700000ull   /* about */
#define FORECAST_BYTES (8ull << 20) /* of less, copying is faster than a forecast */
#define PIECE_BYTES (64ull << 20)   /* copied ahead in pieces: what is done stays done if the next fails */

static int choose(const struct memory *memory, const struct maps *maps, const struct tracker_pages *pages,
                  struct run_set *stale, struct run_set *chosen);
static bool is_in_vain(const struct memory *memory, uint64_t bytes);
static int copy_pieces(struct memory *memory, const struct maps *maps, const struct run_set *pages,
                       const bool *is_cancelled, uint64_t *copied_bytes, struct belay_error *err);
static uint64_t take_piece(const struct run_set *pages, uint64_t from, struct run_set *piece);

int ahead_copy(struct memory *memory, const struct maps *maps, const struct tracker_pages *pages,
               const struct stage_limits *limits, uint64_t *copied_bytes, struct belay_error *err)
{
    struct run_set stale = {0}, chosen = {0}, fresh = {0};
    int rc = choose(memory, maps, pages, &stale, &chosen);
    if (rc == 0)
        rc = runs_subtract(&stale, stage_places(memory->stage),
                           &fresh); /* what was written again has its place */
    uint64_t bytes = runs_bytes(&chosen), more_bytes = runs_bytes(&fresh);
    uint64_t need = stage_bytes(memory->stage) + more_bytes;
    if (rc < 0)
        belay_error_errno(err, "cannot note pages");
    if (rc == 0 && need <= limits->room_bytes) /* for the pause, too: making memory takes long */
        rc = stage_reserve(memory->stage, memory_has_base(memory), more_bytes, err);
    if (rc == 0 && bytes <= limits->most_bytes && need <= limits->room_bytes &&
        !(limits->is_repeated && is_in_vain(memory, bytes))) {
        rc = stage_place(memory->stage, &chosen);
        if (rc == 0)
            rc = copy_pieces(memory, maps, &chosen, limits->is_cancelled, copied_bytes, err);
    }
    runs_release(&stale);
    runs_release(&chosen);
    runs_release(&fresh);
    return rc;
}

/* stale: all that the pause would have to copy; chosen: of these, what is worth copying now. */
static int choose(const struct memory *memory, const struct maps *maps, const struct tracker_pages *pages,
                  struct run_set *stale, struct run_set *chosen)
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
         runs_subtract(&there, stage_current(memory->stage), stale) < 0 ||
         runs_subtract(stale, hot_pages(memory->hot), &cool) < 0 || runs_subtract(&cool, &blind, chosen) < 0))
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
    const struct stage_source source = {memory->pid, maps, memory_has_base(memory)};
    struct belay_error ignored;
    struct run_set piece = {0};
    uint64_t from = 0;
    int rc = 0;
    while (rc == 0 && from != UINT64_MAX && !__atomic_load_n(is_cancelled, __ATOMIC_RELAXED)) {
        from = take_piece(pages, from, &piece);
        if (from == 0)
            rc = belay_error_errno(err, "cannot note pages");
        else if (stage_copy(memory->stage, &source, &piece, 1, copied_bytes, &ignored) < 0 &&
                 ignored.code == ESRCH)
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
