#include "node-agent/member/set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int set_init(struct set *set, const struct mirror_epoch *epoch)
{
    *set = (struct set){.world = epoch->world,
                        .members = calloc(epoch->member_count, sizeof *set->members),
                        .placement = calloc((size_t)epoch->world + 1, sizeof *set->placement)};
    if (!set->members || !set->placement) {
        set_release(set);
        errno = ENOMEM;
        return -1;
    }
    memcpy(set->members, epoch->members, epoch->member_count * sizeof *set->members);
    memcpy(set->placement, epoch->placement, epoch->world * sizeof *set->placement);
    while (set->own + 1 < epoch->member_count && epoch->members[set->own] != epoch->node)
        set->own++;
    parity_set_of(epoch->code, epoch->member_count, set->own, &set->of);
    return 0;
}

void set_release(struct set *set)
{
    free(set->members);
    free(set->placement);
    set->members = set->placement = NULL;
}

uint32_t set_node(const struct set *set, uint32_t position)
{
    return set->members[parity_set_member(&set->of, position)];
}

uint32_t set_rank(const struct set *set, uint32_t position, uint32_t slot)
{
    return parity_rank(set->placement, set->world, parity_set_member(&set->of, position), slot);
}

uint32_t set_position(const struct set *set, uint32_t node)
{
    for (uint32_t i = 0; i < set->of.size; i++)
        if (set_node(set, i) == node)
            return i;
    return EPOCH_NOBODY;
}

struct parity_holding set_holding(const struct set *set, uint32_t slot)
{
    struct parity_holding holding = {
        .slot = slot, .data = set->of.code.data, .parity = set->of.code.parity, .position = set->of.position};
    for (uint32_t i = 0; i < PARITY_MEMBERS_MAX; i++)
        holding.ranks[i] = i < set->of.size ? set_rank(set, i, slot) : EPOCH_NOBODY;
    return holding;
}
