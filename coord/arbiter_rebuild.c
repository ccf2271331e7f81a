/*
 * arbiter_rebuild.c - images that no node has, and that can be made again from parity.
 *
 * Each node tells which parity it holds, and of which set. Of each codeword with a block of the image, as
 * many blocks have to be left as it has blocks of data.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coord/arbiter_state.h"

static bool is_enough(const struct arbiter *arbiter, uint64_t line, uint32_t rank,
                      const struct parity_holding *layout, struct epoch_rebuild *rebuild);
static uint32_t position_of(const struct parity_holding *layout, uint32_t rank);
static bool is_same_set(const struct parity_holding *one, const struct parity_holding *other);
static uint32_t find_parity(const struct arbiter *arbiter, uint64_t line, const struct parity_holding *layout,
                            uint32_t position);
static uint32_t find_image(const struct arbiter *arbiter, uint64_t line, uint64_t rank);
static uint32_t find_tables(const struct arbiter *arbiter, uint64_t line, uint32_t rank);
static int place_sources(struct epoch_rebuild *rebuild, const struct epoch_start *start);

/*
 * By nodes. While parity is made anew, nodes hold parity of a line of two sets: any of them will do of which
 * enough is left.
 */
bool arbiter_find_rebuild(const struct arbiter *arbiter, uint64_t line, uint32_t rank,
                          struct epoch_rebuild *rebuild)
{
    const struct parity_holding *tried = NULL;

    for (uint32_t i = 0; i < arbiter->settings.node_count; i++) {
        const struct node *node = &arbiter->nodes[i];

        for (uint32_t at = 0; node->has_answered && at < node->state->parity_count; at++) {
            const struct parity_holding *layout = &node->state->parities[at];

            if (!parity_holding_has(layout, line) || position_of(layout, rank) == EPOCH_NOBODY ||
                (tried && is_same_set(tried, layout)))
                continue;
            if (is_enough(arbiter, line, rank, layout, rebuild))
                return true;
            tried = layout;
        }
    }
    return false;
}

static bool is_enough(const struct arbiter *arbiter, uint64_t line, uint32_t rank,
                      const struct parity_holding *layout, struct epoch_rebuild *rebuild)
{
    *rebuild = (struct epoch_rebuild){.rank = rank,
                                      .slot = (uint32_t)layout->slot,
                                      .data = (uint32_t)layout->data,
                                      .parity = (uint32_t)layout->parity,
                                      .position = position_of(layout, rank),
                                      .tables = find_tables(arbiter, line, rank)};
    for (uint32_t i = 0; i < PARITY_MEMBERS_MAX; i++) {
        bool is_there = i < layout->data + layout->parity;

        rebuild->ranks[i] = is_there ? (uint32_t)layout->ranks[i] : EPOCH_NOBODY;
        rebuild->images[i] = is_there ? find_image(arbiter, line, layout->ranks[i]) : EPOCH_NOBODY;
        rebuild->parities[i] = is_there ? find_parity(arbiter, line, layout, i) : EPOCH_NOBODY;
    }
    return rebuild->tables != EPOCH_NOBODY && epoch_rebuild_is_enough(rebuild);
}

int arbiter_plan_rebuilds(const struct arbiter *arbiter, struct epoch_start **start)
{
    uint32_t count = 0, ranks = (*start)->rank_count;
    struct epoch_rebuild *rebuilds = NULL, rebuild;
    struct epoch_start *whole;

    for (uint32_t rank = 0; (*start)->line > 0 && rank < ranks; rank++) {
        if (find_image(arbiter, (*start)->line, rank) != EPOCH_NOBODY)
            continue;
        if (!rebuilds)
            rebuilds = calloc(ranks, sizeof(*rebuilds));
        errno = ENODATA;
        if (!rebuilds || !arbiter_find_rebuild(arbiter, (*start)->line, rank, &rebuild) ||
            place_sources(&rebuild, *start) < 0) {
            free(rebuilds);
            return -1;
        }
        (*start)->holder[rank] = rebuild.tables;
        rebuilds[count++] = rebuild;
    }
    if (count == 0)
        return 0;
    whole = epoch_start_with(*start, rebuilds, count);
    free(rebuilds);
    if (!whole)
        return -1;
    free(*start);
    *start = whole;
    return 0;
}

bool arbiter_is_source(const struct arbiter *arbiter, uint64_t line, uint32_t rank, uint32_t node)
{
    struct epoch_rebuild rebuild;

    if (!arbiter_find_rebuild(arbiter, line, rank, &rebuild))
        return false;
    for (uint32_t i = 0; i < rebuild.data + rebuild.parity; i++)
        if (rebuild.images[i] == node || rebuild.parities[i] == node)
            return true;
    return rebuild.tables == node;
}

/* EPOCH_NOBODY: the parity is not of the rank. */
static uint32_t position_of(const struct parity_holding *layout, uint32_t rank)
{
    for (uint32_t i = 0; i < layout->data + layout->parity; i++)
        if (layout->ranks[i] == rank)
            return i;
    return EPOCH_NOBODY;
}

static bool is_same_set(const struct parity_holding *one, const struct parity_holding *other)
{
    return one->slot == other->slot && one->data == other->data && one->parity == other->parity &&
           memcmp(one->ranks, other->ranks, (one->data + one->parity) * sizeof(*one->ranks)) == 0;
}

static uint32_t find_parity(const struct arbiter *arbiter, uint64_t line, const struct parity_holding *layout,
                            uint32_t position)
{
    for (uint32_t i = 0; i < arbiter->settings.node_count; i++) {
        const struct node *node = &arbiter->nodes[i];

        for (uint32_t at = 0; node->has_answered && at < node->state->parity_count; at++) {
            const struct parity_holding *holding = &node->state->parities[at];

            if (holding->position == position && is_same_set(holding, layout) &&
                parity_holding_has(holding, line))
                return i;
        }
    }
    return EPOCH_NOBODY;
}

/* Of a rank, or of no rank. */
static uint32_t find_image(const struct arbiter *arbiter, uint64_t line, uint64_t rank)
{
    struct arbiter_tellers tellers;
    uint32_t home;

    if (rank >= arbiter_rank_count(arbiter))
        return EPOCH_NOBODY;
    home = arbiter->homes ? arbiter->homes->members[arbiter->homes->placement[rank]] : EPOCH_NOBODY;
    if (home != EPOCH_NOBODY && arbiter->nodes[home].has_answered)
        return home;
    tellers = arbiter_tellers(arbiter, (uint32_t)rank);
    for (uint32_t i = 0; i < tellers.count; i++)
        if (arbiter_node_holds(&arbiter->nodes[tellers.nodes[i]], line, (uint32_t)rank))
            return tellers.nodes[i];
    return EPOCH_NOBODY;
}

static uint32_t find_tables(const struct arbiter *arbiter, uint64_t line, uint32_t rank)
{
    const struct arbiter_tellers tellers = arbiter_tellers(arbiter, rank);

    for (uint32_t i = 0; i < tellers.count; i++) {
        const struct node *node = &arbiter->nodes[tellers.nodes[i]];

        if (node->has_answered && epoch_state_has_tables(node->state, line, rank))
            return tellers.nodes[i];
    }
    return EPOCH_NOBODY;
}

/* Nodes become members; one that is none has nothing to give. */
static int place_sources(struct epoch_rebuild *rebuild, const struct epoch_start *start)
{
    rebuild->tables = epoch_start_index(start, rebuild->tables);
    for (uint32_t i = 0; i < PARITY_MEMBERS_MAX; i++) {
        rebuild->images[i] = epoch_start_index(start, rebuild->images[i]);
        rebuild->parities[i] = epoch_start_index(start, rebuild->parities[i]);
    }
    errno = ENODATA;
    return rebuild->tables != EPOCH_NOBODY && epoch_rebuild_is_enough(rebuild) ? 0 : -1;
}
