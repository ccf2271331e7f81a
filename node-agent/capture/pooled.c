#include "node-agent/capture/pooled.h"

#include <errno.h>

#include "common/fault/fault.h"
#include "node-agent/capture/copy.h"

static int put(void *context, const struct run_set *pages, const char *memory, struct belay_error *err);
static int copy_piece(const struct pooled *pooled, struct run_set *piece, bool is_awaited,
                      struct belay_error *err);

void pooled_begin(struct pooled *pooled)
{
    page_pool_begin(pooled->pool, put, pooled);
}

/* Pieces of a slot each; a huge page is several of them. */
int pooled_copy(const struct pooled *pooled, const struct run_set *pages, bool is_awaited,
                struct belay_error *err)
{
    struct run_set piece = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < pages->count; i++) {
        const struct image_run *run = &pages->runs[i];
        for (uint64_t done = 0, bytes; rc == 0 && done < run->bytes; done += bytes) {
            uint64_t used = runs_bytes(&piece), left = run->bytes - done;
            bytes = left < PAGE_POOL_SLOT_BYTES - used ? left : PAGE_POOL_SLOT_BYTES - used;
            const struct image_run part = {run->address + done, bytes, used};
            if (runs_push(&piece, &part) < 0)
                rc = belay_error_errno(err, "cannot note pages");
            else if (used + bytes == PAGE_POOL_SLOT_BYTES)
                rc = copy_piece(pooled, &piece, is_awaited, err);
        }
    }
    if (rc == 0 && piece.count > 0)
        rc = copy_piece(pooled, &piece, is_awaited, err);
    runs_release(&piece);
    return rc;
}

/* The piece is empty then. */
static int copy_piece(const struct pooled *pooled, struct run_set *piece, bool is_awaited,
                      struct belay_error *err)
{
    const struct stage_source *source = &pooled->source;
    if (page_pool_is_full(pooled->pool, is_awaited))
        fault_hit("agent.pool.full", (int)pooled->rank, pooled->line);
    char *slot = page_pool_take(pooled->pool, is_awaited, err);
    if (!slot)
        return -1;
    int rc = copy_runs(source->pid, source->maps, piece->runs, piece->count, slot, err);
    if (rc < 0)
        runs_release(piece);
    page_pool_give(pooled->pool, slot, piece);
    return rc;
}

static int put(void *context, const struct run_set *pages, const char *memory, struct belay_error *err)
{
    const struct pooled *pooled = context;
    if (fault_hit("agent.pool.put", (int)pooled->rank, pooled->line))
        return belay_error_set(err, EIO, "the fault point agent.pool.put was set to fail");
    return stage_put(pooled->stage, pooled->source.is_delta, pages, memory, err);
}
