#include <errno.h>
#include <stdlib.h>

#include "coord/arbiter_state.h"

static uint64_t candidate_of(const struct arbiter *arbiter, uint64_t committed);
static bool has_protected(const struct arbiter *arbiter, const struct node *node, uint64_t line);
static bool is_disproved(const struct arbiter *arbiter, uint64_t line);
static uint32_t walk_told(struct arbiter *arbiter, uint32_t index, uint32_t *told);

/*
 * The line to go on from. A line that any survivor has committed is committed. One that all survivors have
 * protected may have been: it is rolled forward to, unless what is missing proves that a lost member had
 * not protected it.
 */
enum arbiter_want arbiter_choose_line(const struct arbiter *arbiter, uint64_t *line)
{
    uint64_t committed = arbiter->record ? arbiter->record->line : 0, candidate;
    uint32_t survivors = 0;

    for (uint32_t i = 0; i < arbiter_member_count(arbiter); i++) {
        if (!arbiter_is_survivor(arbiter, i))
            continue;
        survivors++;
        if (arbiter_member(arbiter, i)->state->committed_line > committed)
            committed = arbiter_member(arbiter, i)->state->committed_line;
    }
    if (arbiter->record && survivors == 0)
        return ARBITER_WANT_SURVIVOR;
    candidate = candidate_of(arbiter, committed);
    *line = candidate > committed ? candidate : committed;
    return *line == 0 || arbiter_is_held(arbiter, *line) ? ARBITER_WANT_NOTHING : ARBITER_WANT_DATA;
}

/* The newest line that any survivor has protected, if all have and nothing speaks against it; else 0. */
static uint64_t candidate_of(const struct arbiter *arbiter, uint64_t committed)
{
    uint64_t candidate = 0;

    for (uint32_t i = 0; i < arbiter_member_count(arbiter); i++) {
        const struct node *node = arbiter_member(arbiter, i);

        if (arbiter_is_survivor(arbiter, i) && node->state->protected_line > candidate &&
            has_protected(arbiter, node, node->state->protected_line))
            candidate = node->state->protected_line;
    }
    for (uint32_t i = 0; i < arbiter_member_count(arbiter); i++)
        if (arbiter_is_survivor(arbiter, i) && !has_protected(arbiter, arbiter_member(arbiter, i), candidate))
            return 0;
    return candidate > committed && !is_disproved(arbiter, candidate) ? candidate : 0;
}

static bool has_protected(const struct arbiter *arbiter, const struct node *node, uint64_t line)
{
    return node->state->protected_epoch == arbiter->record->epoch && node->state->protected_line == line;
}

/* Tables come to their keepers last, when all parity of the rank is held (docs/parity.md). */
static bool lacks_tables(const struct arbiter *arbiter, uint64_t line, uint32_t rank)
{
    const struct epoch_start *last = arbiter->record;
    uint32_t home = last->placement[rank];

    if (arbiter->settings.scheme != SCHEME_PARITY || arbiter_is_survivor(arbiter, home))
        return false;
    for (uint32_t which = 0; which < arbiter->settings.code.parity; which++) {
        uint32_t keeper = parity_keeper(arbiter->settings.code, last->member_count, home, which);

        if (keeper != EPOCH_NOBODY && arbiter_is_survivor(arbiter, keeper) &&
            !epoch_state_has_tables(arbiter_member(arbiter, keeper)->state, line, rank))
            return true;
    }
    return false;
}

/* A rank's data are not where they would be, at a partner that survives, if its home had protected them. */
static bool is_disproved(const struct arbiter *arbiter, uint64_t line)
{
    const struct epoch_start *last = arbiter->record;

    for (uint32_t rank = 0; rank < last->rank_count; rank++) {
        if (lacks_tables(arbiter, line, rank))
            return true;
        uint32_t partner =
            scheme_partner(arbiter->settings.scheme, last->placement[rank], last->member_count);

        if (partner != EPOCH_NOBODY && arbiter_is_survivor(arbiter, partner) &&
            !arbiter_is_held_of(arbiter, line, rank))
            return true;
    }
    return false;
}

/*
 * A member of the last epoch that answers and has kept its memory since that epoch was opened. A record that
 * was put together of what other members were told may lack its incarnation; then it has to have entered the
 * epoch: otherwise no line of that epoch was taken with it.
 */
bool arbiter_is_survivor(const struct arbiter *arbiter, uint32_t index)
{
    const struct node *node = arbiter_member(arbiter, index);
    uint64_t incarnation = arbiter->record->incarnations[index];

    if (!node->has_answered)
        return false;
    return incarnation != 0 ? node->state->incarnation == incarnation
                            : node->state->entered_epoch == arbiter->record->epoch;
}

/* The redundancy scheme's question: does somebody who answers hold each rank's data? */
bool arbiter_is_held(const struct arbiter *arbiter, uint64_t line)
{
    for (uint32_t rank = 0; rank < arbiter_rank_count(arbiter); rank++)
        if (!arbiter_is_held_of(arbiter, line, rank))
            return false;
    return true;
}

bool arbiter_is_held_of(const struct arbiter *arbiter, uint64_t line, uint32_t rank)
{
    const struct arbiter_tellers tellers = arbiter_tellers(arbiter, rank);
    struct epoch_rebuild rebuild;

    for (uint32_t i = 0; i < tellers.count; i++)
        if (arbiter_node_holds(&arbiter->nodes[tellers.nodes[i]], line, rank))
            return true;
    return arbiter_find_rebuild(arbiter, line, rank, &rebuild);
}

bool arbiter_node_holds(const struct node *node, uint64_t line, uint32_t rank)
{
    const struct holding *held = node->has_answered ? epoch_state_holding(node->state, rank) : NULL;

    return held && holding_has(held, line);
}

struct arbiter_tellers arbiter_tellers(const struct arbiter *arbiter, uint32_t rank)
{
    const uint32_t *first = &arbiter->told_first[rank];

    return (struct arbiter_tellers){.nodes = &arbiter->told[first[0]], .count = first[1] - first[0]};
}

/* Sorted by counting: told_first is one further while nodes are entered. Nodes of a rank are in their order.
 */
int arbiter_list_tellers(struct arbiter *arbiter)
{
    uint32_t ranks = arbiter_rank_count(arbiter);
    size_t all = 0;

    free(arbiter->told_first);
    free(arbiter->told);
    arbiter->told = NULL;
    arbiter->told_first = calloc((size_t)ranks + 2, sizeof(*arbiter->told_first));
    if (!arbiter->told_first)
        return -1;
    for (uint32_t i = 0; i < arbiter->settings.node_count; i++)
        all += walk_told(arbiter, i, NULL);
    for (uint32_t i = 1; i < ranks + 2; i++)
        arbiter->told_first[i] += arbiter->told_first[i - 1];
    arbiter->told = all <= UINT32_MAX ? calloc(all + 1, sizeof(*arbiter->told)) : NULL;
    for (uint32_t i = 0; arbiter->told && i < arbiter->settings.node_count; i++)
        walk_told(arbiter, i, arbiter->told);
    errno = ENOMEM;
    return arbiter->told ? 0 : -1;
}

/* Count what a node tells, or enter it into `told`. Returns how many ranks that are. */
static uint32_t walk_told(struct arbiter *arbiter, uint32_t index, uint32_t *told)
{
    const struct node *node = &arbiter->nodes[index];
    uint32_t ranks = arbiter_rank_count(arbiter), count = 0;

    for (uint32_t part = 0; node->has_answered && part < node->state->held_count; part++) {
        uint32_t rank = node->state->ranks[part];

        if (rank >= ranks)
            break;
        if (told)
            told[arbiter->told_first[rank + 1]++] = index;
        else
            arbiter->told_first[rank + 2]++;
        count++;
    }
    return count;
}
