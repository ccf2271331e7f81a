#include "coord/demands.h"

static void insert(uint32_t *ranks, uint32_t count, uint32_t rank);

void demands_add(struct demands *demands, uint32_t rank)
{
    for (uint32_t i = 0; i < demands->count; i++)
        if (demands->ranks[i] == (int32_t)rank)
            return;
    if (demands->count < DEMANDS_MAX)
        demands->ranks[demands->count++] = (int32_t)rank;
    else
        demands->is_all = true;
}

void demands_add_all(struct demands *demands)
{
    demands->is_all = true;
}

bool demands_are_told(const struct demands *demands)
{
    return demands->is_all ? demands->is_all_told : demands->told == demands->count;
}

uint32_t demands_tell(struct demands *demands, uint32_t ranks[DEMANDS_MAX])
{
    uint32_t count = 0;

    if (demands->is_all) {
        demands->is_all_told = true;
        return 0;
    }
    for (; demands->told < demands->count; demands->told++)
        insert(ranks, count++, (uint32_t)demands->ranks[demands->told]);
    return count;
}

static void insert(uint32_t *ranks, uint32_t count, uint32_t rank)
{
    uint32_t at = count;

    for (; at > 0 && ranks[at - 1] > rank; at--)
        ranks[at] = ranks[at - 1];
    ranks[at] = rank;
}
