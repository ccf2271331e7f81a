#include "node-agent/capture/cow_chunks.h"

#include <stdlib.h>

#define SAMPLE_EVERY 4u   /* chunks, at least */
#define SAMPLES_MOST 128u /* about */

static int add(struct chunks *chunks, size_t *room, uint64_t start, uint64_t end)
{
    if (chunks->count == *room) {
        size_t more = *room ? 2 * *room : 256;
        struct chunk *list = realloc(chunks->list, more * sizeof *list);
        if (!list)
            return -1;
        chunks->list = list;
        *room = more;
    }
    chunks->list[chunks->count++] = (struct chunk){.start = start, .end = end};
    return 0;
}

/* The aligned block of a size that an address lies in. */
static uint64_t block_of(uint64_t address, uint64_t bytes)
{
    return address / bytes * bytes;
}

/* Is the whole block, of the size of a huge page, among these? Blocks are asked for in ascending order. */
static bool is_huge(const struct run_set *huge, uint64_t block)
{
    size_t at = runs_find(huge, block);
    return at < huge->count && huge->runs[at].address <= block &&
           huge->runs[at].address + huge->runs[at].bytes >= block + CHUNK_HUGE_BYTES;
}

int chunks_make(struct chunks *chunks, const struct run_set *pages, const struct run_set *huge, uint64_t turn)
{
    struct chunks made = {0};
    size_t room = 0;
    for (size_t i = 0; i < pages->count; i++) {
        uint64_t end = pages->runs[i].address + pages->runs[i].bytes;
        for (uint64_t at = pages->runs[i].address, next; at < end; at = next) {
            uint64_t large = block_of(at, CHUNK_HUGE_BYTES);
            bool is_large = is_huge(huge, large);
            uint64_t start = is_large ? large : block_of(at, CHUNK_BYTES);
            next = start + (is_large ? CHUNK_HUGE_BYTES : CHUNK_BYTES);
            bool is_there = made.count > 0 && made.list[made.count - 1].start == start;
            if (!is_there && add(&made, &room, start, next) < 0) {
                chunks_release(&made);
                return -1;
            }
        }
    }
    size_t every = made.count / SAMPLES_MOST;
    every = every > SAMPLE_EVERY ? every : SAMPLE_EVERY;
    for (size_t i = turn % every; i < made.count; i += every)
        made.list[i].is_sample = true;
    chunks_release(chunks);
    *chunks = made;
    return 0;
}

void chunks_release(struct chunks *chunks)
{
    free(chunks->list);
    *chunks = (struct chunks){0};
}

size_t chunks_from(const struct chunks *chunks, uint64_t address)
{
    size_t low = 0, high = chunks->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (chunks->list[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

struct chunk *chunks_find(const struct chunks *chunks, uint64_t address)
{
    size_t at = chunks_from(chunks, address);
    return at < chunks->count && chunks->list[at].start <= address ? &chunks->list[at] : NULL;
}

void chunks_count_samples(const struct chunks *chunks, uint64_t start, uint64_t end, size_t *samples,
                          size_t *written)
{
    *samples = *written = 0;
    for (size_t i = chunks_from(chunks, start); i < chunks->count && chunks->list[i].start < end; i++) {
        *samples += chunks->list[i].is_sample;
        *written += chunks->list[i].is_sample && chunks->list[i].is_written;
    }
}
