#include <string.h>

#include "coord/arbiter_state.h"
#include "coord/domains.h"

/* What an epoch needs at least one member for. */
struct quality {
    bool (*is_had)(const struct node *node, const struct quality *quality);
    uint64_t line, processor;
    uint32_t rank;
    const uint32_t *nodes; /* that may have it; NULL: all */
    uint32_t node_count;
};

static void list_member(struct arbiter *arbiter, uint32_t node, uint32_t former);
static void list_only(struct arbiter *arbiter, uint64_t line);
static void list_sources(struct arbiter *arbiter, const struct quality *quality);
static uint32_t find_only(const struct arbiter *arbiter, const struct quality *quality);
static bool has_image(const struct node *node, const struct quality *quality);
static bool has_processors(const struct node *node, const struct quality *quality);
static void arrange(struct arbiter *arbiter);
static uint32_t find_newcomer(const struct arbiter *arbiter, uint32_t lost);
static bool is_newcomer(const struct node *node);
static uint32_t likeness_of(const struct arbiter *arbiter, uint32_t node, uint32_t lost);

/* Of the epoch that is opened. */
uint32_t arbiter_count_members(const struct arbiter *arbiter)
{
    uint32_t answers = arbiter->answer_count, most = arbiter->settings.max_members;

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
    for (uint32_t node = 0; arbiter->listed_count < most && node < arbiter->settings.node_count; node++)
        if (is_newcomer(&arbiter->nodes[node]))
            list_member(arbiter, node, EPOCH_NOBODY);
    if (line > 0)
        list_only(arbiter, line);
    if (arbiter->domains)
        arrange(arbiter);
}

/* Whoever has what no listed member has. */
static void list_only(struct arbiter *arbiter, uint64_t line)
{
    const struct epoch_start *last = arbiter->record;
    struct quality quality = {.is_had = has_image, .line = line};

    for (quality.rank = 0; quality.rank < arbiter_rank_count(arbiter); quality.rank++) {
        const struct arbiter_tellers tellers = arbiter_tellers(arbiter, quality.rank);

        quality.nodes = tellers.nodes;
        quality.node_count = tellers.count;
        list_member(arbiter, find_only(arbiter, &quality), EPOCH_NOBODY);
        list_sources(arbiter, &quality);
    }
    quality = (struct quality){.is_had = has_processors, .node_count = arbiter->settings.node_count};
    for (uint32_t rank = 0; rank < last->rank_count; rank++) {
        uint64_t processor = last->processors[last->placement[rank]];

        if (rank > 0 && processor == quality.processor)
            continue;
        quality.processor = processor;
        list_member(arbiter, find_only(arbiter, &quality), EPOCH_NOBODY);
    }
}

/* All that have a part of an image that no node has. */
static void list_sources(struct arbiter *arbiter, const struct quality *quality)
{
    for (uint32_t i = 0; i < quality->node_count; i++)
        if (has_image(&arbiter->nodes[quality->nodes[i]], quality))
            return;
    for (uint32_t node = 0; node < arbiter->settings.node_count; node++)
        if (!arbiter->nodes[node].is_listed && arbiter_is_source(arbiter, quality->line, quality->rank, node))
            list_member(arbiter, node, EPOCH_NOBODY);
}

/* So that what protects an image is in other domains than the image. */
static void arrange(struct arbiter *arbiter)
{
    uint32_t count = arbiter->listed_count, *order = arbiter->room, *nodes = order + count;

    memcpy(nodes, arbiter->listed, count * sizeof(*nodes));
    domains_arrange(nodes, count, arbiter->domains, arbiter->settings.code, order, nodes + count);
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

/* A node that has what no listed member has; EPOCH_NOBODY: a listed one has it, or no node. */
static uint32_t find_only(const struct arbiter *arbiter, const struct quality *quality)
{
    uint32_t found = EPOCH_NOBODY;

    for (uint32_t i = 0; i < quality->node_count; i++) {
        uint32_t node = quality->nodes ? quality->nodes[i] : i;

        if (!quality->is_had(&arbiter->nodes[node], quality))
            continue;
        if (arbiter->nodes[node].is_listed)
            return EPOCH_NOBODY;
        found = node;
    }
    return found;
}

static bool has_image(const struct node *node, const struct quality *quality)
{
    return arbiter_node_holds(node, quality->line, quality->rank);
}

static bool has_processors(const struct node *node, const struct quality *quality)
{
    return node->has_answered && node->state->processor == quality->processor;
}

/* It answers, is not listed, and has no place from the last epoch. */
static bool is_newcomer(const struct node *node)
{
    return node->has_answered && !node->is_listed && node->index == EPOCH_NOBODY;
}

/* Of a node that could take the place of a lost member; ranks can go on only where the processors are alike.
 */
static uint32_t likeness_of(const struct arbiter *arbiter, uint32_t node, uint32_t lost)
{
    uint64_t processor = arbiter->record->processors[arbiter->nodes[lost].index];
    bool is_same_kind = arbiter->nodes[node].state->processor == processor;
    bool is_same_domain = !arbiter->domains || arbiter->domains[node] == arbiter->domains[lost];

    return 2 * is_same_kind + is_same_domain;
}

/*
 * The first newcomer; of all, one that has processors like the lost node whose place it takes, and is in the
 * same failure domain. EPOCH_NOBODY: none.
 */
static uint32_t find_newcomer(const struct arbiter *arbiter, uint32_t lost)
{
    uint32_t found = EPOCH_NOBODY, best = 0;

    for (uint32_t node = 0; node < arbiter->settings.node_count; node++) {
        if (!is_newcomer(&arbiter->nodes[node]))
            continue;
        uint32_t likeness = likeness_of(arbiter, node, lost);

        if (found == EPOCH_NOBODY || likeness > best) {
            found = node;
            best = likeness;
        }
    }
    return found;
}
