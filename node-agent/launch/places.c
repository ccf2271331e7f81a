#include "node-agent/launch/places.h"

#include "common/wire/placement.h"

bool places_has(const struct epoch_start *start, uint32_t node, uint32_t rank, uint32_t ranks)
{
    uint32_t index = epoch_start_index(start, node);
    if (start->rank_count == 0)
        return placement_block(rank, ranks, start->member_count) == index;
    return rank < start->rank_count && start->placement[rank] == index;
}

uint32_t places_count(const struct epoch_start *start, uint32_t node, uint32_t ranks)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < ranks; rank++)
        count += places_has(start, node, rank, ranks);
    return count;
}
