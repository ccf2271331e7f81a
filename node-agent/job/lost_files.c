#include "node-agent/job/lost_files.h"

#include <stdlib.h>
#include <string.h>

static bool is_member(const struct epoch_start *start, uint32_t node)
{
    for (uint32_t i = 0; i < start->member_count; i++)
        if (start->members[i] == node)
            return true;
    return false;
}

/* In the epoch before; a placement that is not known yet names no member. */
static bool was_on_lost_node(const struct epoch_start *last, const struct epoch_start *start, uint32_t rank)
{
    uint32_t index = last->placement[rank];
    return index < last->member_count && !is_member(start, last->members[index]);
}

static void *copy_of(const void *from, size_t bytes)
{
    void *to = malloc(bytes + 1);
    if (to && bytes > 0)
        memcpy(to, from, bytes);
    return to;
}

static bool begin(struct lost_files *lost, uint32_t rank_count, const uint64_t *devices, size_t device_count)
{
    lost->is_lost = calloc(rank_count, sizeof *lost->is_lost);
    lost->devices = copy_of(devices, device_count * sizeof *devices);
    lost->rank_count = rank_count;
    lost->device_count = device_count;
    if (lost->is_lost && lost->devices)
        return true;
    lost_files_release(lost);
    return false;
}

void lost_files_note(struct lost_files *lost, const struct epoch_start *last, const struct epoch_start *start,
                     const uint64_t *devices, size_t device_count)
{
    for (uint32_t rank = 0; last && rank < last->rank_count; rank++) {
        if (!was_on_lost_node(last, start, rank))
            continue;
        if (!lost->is_lost && !begin(lost, last->rank_count, devices, device_count))
            return;
        if (rank < lost->rank_count)
            lost->is_lost[rank] = true;
    }
}

struct lost_files lost_files_copy(const struct lost_files *lost)
{
    struct lost_files copy = {0};
    if (lost->is_lost && begin(&copy, lost->rank_count, lost->devices, lost->device_count))
        memcpy(copy.is_lost, lost->is_lost, lost->rank_count * sizeof *copy.is_lost);
    return copy;
}

void lost_files_release(struct lost_files *lost)
{
    free(lost->is_lost);
    free(lost->devices);
    *lost = (struct lost_files){0};
}
