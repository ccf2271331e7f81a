#include "node-agent/member/set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "node-agent/redundancy/code.h"

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

bool set_route(const void *context, uint64_t block, uint64_t *to_block, uint8_t *coefficient)
{
    const struct set_way *way = context;
    uint64_t row = block / way->code.data;
    uint32_t column = (uint32_t)(block % way->code.data);
    uint32_t share = parity_share(way->code, way->holder, parity_codeword(way->code, way->home, column));
    *to_block = row * way->code.parity + share;
    *coefficient = 1;
    return share < way->code.parity;
}

uint8_t set_weigh(const struct set_way *way, uint64_t address)
{
    const struct parity_code code = way->code;
    uint32_t share = (uint32_t)(address / PARITY_BLOCK_BYTES % code.parity), size = code.data + code.parity;
    uint32_t column = parity_column(code, way->home, (way->holder + size - share) % size);
    return column < code.data ? code_coefficient(code, share, column) : 0;
}
