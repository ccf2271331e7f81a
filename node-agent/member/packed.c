#include "node-agent/member/packed.h"

#include <stdlib.h>
#include <string.h>

int packed_begin(struct packed *packed, const struct image_view *view)
{
    uint64_t count = view->header->run_count;
    uint64_t *starts = calloc(count + 1, sizeof *starts);
    if (!starts)
        return -1;
    for (uint64_t i = 0; i < count; i++)
        starts[i + 1] = starts[i] + view->runs[i].bytes;
    *packed = (struct packed){.runs = view->runs, .count = count, .starts = starts};
    return 0;
}

void packed_release(struct packed *packed)
{
    free(packed->starts);
    memset(packed, 0, sizeof *packed);
}

uint64_t packed_bytes(const struct packed *packed)
{
    return packed->starts[packed->count];
}

/* The first run that ends behind an address. */
static uint64_t run_at(const struct packed *packed, uint64_t address)
{
    const struct run_set all = {.runs = (struct image_run *)(uintptr_t)packed->runs, .count = packed->count};
    return runs_find(&all, address);
}

uint64_t packed_from(const struct packed *packed, uint64_t address)
{
    uint64_t i = run_at(packed, address);
    if (i == packed->count)
        return packed->starts[i];
    const struct image_run *run = &packed->runs[i];
    return packed->starts[i] + (address > run->address ? address - run->address : 0);
}

bool packed_find(const struct packed *packed, uint64_t address, uint64_t *offset)
{
    uint64_t i = run_at(packed, address);
    if (i == packed->count || address < packed->runs[i].address)
        return false;
    *offset = packed->starts[i] + (address - packed->runs[i].address);
    return true;
}

bool packed_piece(const struct packed *packed, uint64_t offset, uint64_t end, struct packed_piece *piece)
{
    uint64_t low = 0, high = packed->count; /* the run is one of [low, high) */
    if (offset >= end || offset >= packed_bytes(packed))
        return false;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (packed->starts[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    uint64_t last = packed->starts[low + 1] < end ? packed->starts[low + 1] : end;
    piece->address = packed->runs[low].address + (offset - packed->starts[low]);
    piece->bytes = last - offset;
    return true;
}
