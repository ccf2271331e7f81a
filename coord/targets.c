#include "coord/targets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TARGETS_FIRST_CAPACITY 16u

static int grow(struct targets *targets);
static uint32_t *find_slot(const struct targets *targets, uint64_t comm);

void targets_destroy(struct targets *targets)
{
    free(targets->clocks);
    free(targets->slots);
    memset(targets, 0, sizeof(*targets));
}

void targets_reset(struct targets *targets)
{
    if (targets->slots)
        memset(targets->slots, 0, targets->slot_count * sizeof(*targets->slots));
    targets->count = 0;
    targets->version = 0;
    targets->is_raised = false;
}

int targets_raise(struct targets *targets, uint64_t comm, uint64_t seq)
{
    uint32_t *slot;

    if (targets->count == targets->capacity && grow(targets) < 0)
        return -1;
    slot = find_slot(targets, comm);
    if (*slot == 0) {
        targets->clocks[targets->count] = (struct coord_clock){.comm = comm, .seq = seq};
        *slot = ++targets->count;
        /* A communicator that nobody has used has target 0 with or without a mention. */
        targets->is_raised |= seq > 0;
    } else if (targets->clocks[*slot - 1].seq < seq) {
        targets->clocks[*slot - 1].seq = seq;
        targets->is_raised = true;
    }
    return 0;
}

/* Members that name another number of members cannot be counted. */
void targets_see(struct targets *targets, uint64_t comm, uint32_t seen, uint32_t size)
{
    struct coord_clock *clock = &targets->clocks[targets_index(targets, comm)];

    clock->size = clock->seen == 0 || clock->size == size ? size : 0;
    clock->seen += seen;
}

uint32_t targets_index(const struct targets *targets, uint64_t comm)
{
    return targets->count > 0 ? *find_slot(targets, comm) - 1 : TARGETS_NONE;
}

uint64_t targets_find(const struct targets *targets, uint64_t comm)
{
    uint32_t slot = targets->count > 0 ? *find_slot(targets, comm) : 0;

    return slot > 0 ? targets->clocks[slot - 1].seq : 0;
}

uint32_t targets_announce(struct targets *targets)
{
    targets->is_raised = false;
    return ++targets->version;
}

/* Double the table; slots stay at most half full, so probing is short. */
static int grow(struct targets *targets)
{
    uint32_t capacity = targets->capacity ? 2 * targets->capacity : TARGETS_FIRST_CAPACITY;
    uint32_t *slots = calloc(2 * (size_t)capacity, sizeof(*slots));
    struct coord_clock *clocks;

    if (!slots)
        return -1;
    clocks = realloc(targets->clocks, capacity * sizeof(*clocks));
    if (!clocks) {
        free(slots);
        errno = ENOMEM;
        return -1;
    }
    free(targets->slots);
    targets->clocks = clocks;
    targets->capacity = capacity;
    targets->slots = slots;
    targets->slot_count = 2 * capacity;
    for (uint32_t i = 0; i < targets->count; i++)
        *find_slot(targets, clocks[i].comm) = i + 1;
    return 0;
}

/* The slot that holds comm, or the free one where it belongs. */
static uint32_t *find_slot(const struct targets *targets, uint64_t comm)
{
    /* Fibonacci hashing: ids of communicators are often small and consecutive. */
    uint64_t hash = comm * 0x9e3779b97f4a7c15ull;
    uint32_t i = (uint32_t)(hash >> 32) & (targets->slot_count - 1);

    while (targets->slots[i] && targets->clocks[targets->slots[i] - 1].comm != comm)
        i = (i + 1) & (targets->slot_count - 1);
    return &targets->slots[i];
}
