#include "coord/parity.h"

static uint32_t smaller(uint32_t one, uint32_t other)
{
    return one < other ? one : other;
}

/* As many as fit best, and none larger than a code can be. */
static uint32_t count_sets(struct parity_code code, uint32_t count)
{
    uint32_t size = code.data + code.parity, sets = (count + size / 2) / size;

    while (sets > 1 && count / sets < 2 * code.parity) /* none is too small for all of the parity */
        sets--;
    if (sets == 0)
        sets = 1;
    while ((count + sets - 1) / sets > PARITY_MEMBERS_MAX)
        sets++;
    return sets;
}

bool parity_set_of(struct parity_code code, uint32_t count, uint32_t index, struct parity_set *set)
{
    uint32_t sets;

    if (code.parity == 0 || code.data == 0 || count < 2 || index >= count)
        return false;
    sets = count_sets(code, count);
    *set = (struct parity_set){.number = index % sets, .count = sets, .position = index / sets};
    set->size = (count - set->number + sets - 1) / sets;
    set->code.parity = smaller(code.parity, set->size / 2);
    set->code.data = set->size - set->code.parity;
    return true;
}

uint32_t parity_set_member(const struct parity_set *set, uint32_t position)
{
    return set->number + position * set->count;
}

bool parity_is_as_asked(struct parity_code code, uint32_t count)
{
    struct parity_set set;

    for (uint32_t i = 0; i < count; i++)
        if (!parity_set_of(code, count, i, &set) || set.code.parity < code.parity ||
            set.size < code.data + code.parity)
            return false;
    return true;
}

uint32_t parity_keeper(struct parity_code code, uint32_t count, uint32_t index, uint32_t which)
{
    struct parity_set set;

    if (!parity_set_of(code, count, index, &set) || which >= set.code.parity)
        return PARITY_NOBODY;
    return parity_set_member(&set, (set.position + 1 + which) % set.size);
}

bool parity_is_keeper(struct parity_code code, uint32_t count, uint32_t index, uint32_t other)
{
    for (uint32_t which = 0; which < code.parity; which++)
        if (parity_keeper(code, count, index, which) == other)
            return true;
    return false;
}

uint32_t parity_slot(const uint32_t *placement, uint32_t rank)
{
    uint32_t slot = 0;

    for (uint32_t other = 0; other < rank; other++)
        slot += placement[other] == placement[rank];
    return slot;
}

uint32_t parity_rank(const uint32_t *placement, uint32_t ranks, uint32_t member, uint32_t slot)
{
    for (uint32_t rank = 0; rank < ranks; rank++)
        if (placement[rank] == member && slot-- == 0)
            return rank;
    return PARITY_NOBODY;
}
