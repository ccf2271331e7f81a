#include "relay/streams_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int streams_map_open(struct streams_map *map, const int fds[2], struct belay_error *err)
{
    *map = (struct streams_map){.fds = {fds[0], fds[1]}};
    void *head = mmap(NULL, STREAMS_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    if (head == MAP_FAILED) {
        belay_error_errno(err, "cannot map the memory of standard streams");
        streams_map_close(map);
        return -1;
    }
    map->head = head;
    return 0;
}

static void unmap_slots(struct streams_map *map)
{
    if (map->slots)
        munmap(map->slots, STREAMS_SLOT_BYTES * map->ranks);
    map->slots = NULL;
}

void streams_map_close(struct streams_map *map)
{
    unmap_slots(map);
    if (map->head)
        munmap(map->head, STREAMS_PAGE_BYTES);
    free(map->known);
    for (int i = 0; i < 2; i++)
        if (map->fds[i] >= 0)
            close(map->fds[i]);
    *map = (struct streams_map){.fds = {-1, -1}};
}

int streams_map_grow(struct streams_map *map, uint32_t ranks, struct belay_error *err)
{
    if (ranks <= map->ranks)
        return 0;
    if (ranks > STREAMS_MAX_RANKS)
        return belay_error_set(err, EPROTO, "there cannot be %u ranks", ranks);
    struct streams_known *known = reallocarray(map->known, (size_t)ranks * STREAMS_PER_RANK, sizeof *known);
    if (!known)
        return belay_error_set(err, ENOMEM, "out of memory");
    map->known = known;
    void *slots = mmap(NULL, STREAMS_SLOT_BYTES * ranks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                       map->fds[0], (off_t)STREAMS_SLOT(0));
    if (slots == MAP_FAILED)
        return belay_error_errno(err, "cannot map the output of %u ranks", ranks);
    memset(known + (size_t)map->ranks * STREAMS_PER_RANK, 0,
           (size_t)(ranks - map->ranks) * STREAMS_PER_RANK * sizeof *known);
    unmap_slots(map);
    map->slots = slots;
    map->ranks = ranks;
    return 0;
}

struct stream *streams_map_stream(const struct streams_map *map, uint32_t rank, uint32_t which)
{
    struct streams_rank *slot = (void *)(map->slots + STREAMS_SLOT_BYTES * rank);
    return &slot->streams[which];
}

struct streams_known *streams_map_known(const struct streams_map *map, uint32_t rank, uint32_t which)
{
    return &map->known[(size_t)rank * STREAMS_PER_RANK + which];
}

void streams_map_set_end(struct stream *stream, const struct stream_end *end)
{
    uint32_t other = !(stream->turn & 1);
    stream->ends[other] = *end;
    __atomic_store_n(&stream->turn, other, __ATOMIC_RELEASE);
}

static uint8_t *ring(const struct streams_map *map, uint32_t rank, uint32_t which)
{
    return map->slots + (STREAMS_RING(rank, (uint64_t)which) - STREAMS_SLOT(0));
}

void streams_map_put(const struct streams_map *map, uint32_t rank, uint32_t which, uint64_t at,
                     const uint8_t *bytes, uint64_t count)
{
    uint64_t place = at % STREAMS_RING_BYTES, first = STREAMS_RING_BYTES - place;
    first = first < count ? first : count;
    memcpy(ring(map, rank, which) + place, bytes, first);
    memcpy(ring(map, rank, which), bytes + first, count - first);
}

void streams_map_get(const struct streams_map *map, uint32_t rank, uint32_t which, uint64_t at,
                     uint8_t *bytes, uint64_t count)
{
    uint64_t place = at % STREAMS_RING_BYTES, first = STREAMS_RING_BYTES - place;
    first = first < count ? first : count;
    memcpy(bytes, ring(map, rank, which) + place, first);
    memcpy(bytes + first, ring(map, rank, which), count - first);
}
