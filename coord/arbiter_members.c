#include <string.h>

#include "coord/arbiter_state.h"
#include "coord/domains.h"

static void list_member(struct arbiter *arbiter, uint32_t node, uint32_t former);
static uint32_t find_only_holder(const struct arbiter *arbiter, uint64_t line, uint32_t rank);
static uint32_t find_only_like(const struct arbiter *arbiter, uint32_t rank);
static void arrange(struct arbiter *arbiter);
static uint32_t find_newcomer(const struct arbiter *arbiter, uint32_t lost);
static uint32_t likeness_of(const struct arbiter *arbiter, uint32_t node, uint32_t lost);

/* Of the epoch that is opened. */
uint32_t arbiter_count_members(const struct arbiter *arbiter)
{
    uint32_t answers = arbiter_count_answers(arbiter), most = arbiter->settings.max_members;

    return most > 0 && most < answers ? most : answers;
}

/*
 * Members keep their order, so that most of them keep their partners, too. A node that takes the place of a
 * lost one has the same neighbours. Whoever alone has an image, or the processors for one, is a member in any
 * case.
 */
void arbiter_list_members(struct arbiter *arbiter, uint64_t line)
{
    uint32_t most = arbiter_count_members(arbiter);

    arbiter->listed_count = 0;
    for (uint32_t i = 0; i < arbiter->settings.node_count; i++)
        arbiter->nodes[i].is_listed = false;
    for (uint32_t i = 0; i < arbiter_member_count(arbiter) && arbiter->listed_count < most; i++) {
        uint32_t node = arbiter->record->members[i];

        list_member(arbiter, arbiter->nodes[node].has_answered ? node : find_newcomer(arbiter, node), i);
    }
    while (arbiter->listed_count < most)
        list_member(arbiter, find_newcomer(arbiter, EPOCH_NOBODY), EPOCH_NOBODY);
    for (uint32_t rank = 0; line > 0 && rank < arbiter_rank_count(arbiter); rank++)
        list_member(arbiter, find_only_holder(arbiter, line, rank), EPOCH_NOBODY);
    for (uint32_t rank = 0; line > 0 && rank < arbiter->record->rank_count; rank++)
        list_member(arbiter, find_only_like(arbiter, rank), EPOCH_NOBODY);
    if (arbiter->domains)
        arrange(arbiter);
}

/* So that copies are in other domains than their images. */
static void arrange(struct arbiter *arbiter)
{
    uint32_t count = arbiter->listed_count, *order = arbiter->room, *nodes = order + count;

    memcpy(nodes, arbiter->listed, count * sizeof(*nodes));
    domains_arrange(nodes, count, arbiter->domains, order, nodes + count);
    for (uint32_t i = 0; i < count; i++)
        arbiter->listed[i] = nodes[order[i]];
}

/* EPOCH_NOBODY: nothing is done. */
static void list_member(struct arbiter *arbiter, uint32_t node, uint32_t former)
{
    if (node == EPOCH_NOBODY)
        return;
    arbiter->nodes[node].is_listed = true;
    arbiter->nodes[node].former = former;
    arbiter->listed[arbiter->listed_count++] = node;
}

/* A node that has an image which no listed member has; EPOCH_NOBODY: a listed one has it. */
static uint32_t find_only_holder(const struct arbiter *arbiter, uint64_t line, uint32_t rank)
{
    uint32_t found = EPOCH_NOBODY;

    for (uint32_t node = 0; node < arbiter->settings.node_count; node++) {
        if (!arbiter_node_holds(&arbiter->nodes[node], line, rank))
            continue;
        if (arbiter->nodes[node].is_listed)
            return EPOCH_NOBODY;
        found = node;
    }
    return found;
}

/* A node with processors for a rank which no listed member has; EPOCH_NOBODY: a listed one has them, or none.
 */
static uint32_t find_only_like(const struct arbiter *arbiter, uint32_t rank)
{
    uint64_t processor = arbiter->record->processors[arbiter->record->placement[rank]];
    uint32_t found = EPOCH_NOBODY;

    for (uint32_t node = 0; node < arbiter->settings.node_count; node++) {
        if (!arbiter->nodes[node].has_answered || arbiter->nodes[node].state.processor != processor)
            continue;
        if (arbiter->nodes[node].is_listed)
            return EPOCH_NOBODY;
        found = node;
    }
    return found;
}

/* Of a node that could take the place of a lost member; ranks can go on only where the processors are alike.
 */
static uint32_t likeness_of(const struct arbiter *arbiter, uint32_t node, uint32_t lost)
{
    uint64_t processor = arbiter->record->processors[epoch_start_index(arbiter->record, lost)];
    bool is_same_kind = arbiter->nodes[node].state.processor == processor;
    bool is_same_domain = !arbiter->domains || arbiter->domains[node] == arbiter->domains[lost];

    return 2 * is_same_kind + is_same_domain;
}

/*
 * The first node that answers, is not listed, and has no place from the last epoch; of those, one that has
 * processors like the node whose place it takes, and is in the same failure domain. EPOCH_NOBODY: none.
 */
static uint32_t find_newcomer(const struct arbiter *arbiter, uint32_t lost)
{
    uint32_t found = EPOCH_NOBODY, best = 0;

    for (uint32_t node = 0; node < arbiter->settings.node_count; node++) {
        bool was_member = arbiter->record && epoch_start_index(arbiter->record, node) != EPOCH_NOBODY;

        if (!arbiter->nodes[node].has_answered || arbiter->nodes[node].is_listed || was_member)
            continue;
        uint32_t likeness = lost == EPOCH_NOBODY ? 0 : likeness_of(arbiter, node, lost);

        if (found == EPOCH_NOBODY || likeness > best) {
            found = node;
            best = likeness;
        }
    }
    return found;
}
