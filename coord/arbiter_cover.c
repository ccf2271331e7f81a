/*
 * arbiter_cover.c - what another loss would mean: whether any one member of the newest epoch may be lost with
 * its memory, and the epoch's line can be gone on from all the same.
 */
#include "coord/arbiter.h"
#include "coord/arbiter_state.h"

static bool is_covered_without(struct arbiter *arbiter, uint32_t index);

bool arbiter_is_covered(struct arbiter *arbiter)
{
    const struct epoch_start *start = arbiter->record;
    bool is_covered = true;

    if (!start || start->line == 0)
        return true;
    if (arbiter_list_tellers(arbiter) < 0)
        return false;
    arbiter->homes = start;
    for (uint32_t i = 0; is_covered && i < start->member_count; i++)
        is_covered = is_covered_without(arbiter, i);
    arbiter->homes = NULL;
    return is_covered;
}

/* All other ranks have their images where they run. */
static bool is_covered_without(struct arbiter *arbiter, uint32_t index)
{
    const struct epoch_start *start = arbiter->record;
    struct node *node = arbiter_member(arbiter, index);
    bool had_answered = node->has_answered, is_covered = true;

    node->has_answered = false;
    for (uint32_t rank = 0; is_covered && rank < start->rank_count; rank++)
        if (start->placement[rank] == index)
            is_covered = arbiter_is_held_of(arbiter, start->line, rank);
    node->has_answered = had_answered;
    return is_covered;
}
