#include "tests/sim/survival.h"

#include <string.h>

#include "tests/sim/parity_sum.h"
#include "tests/sim/proof.h"

static bool is_counted(const struct world *world, uint32_t node, uint64_t line);

struct snapshot *survival_snapshot(struct world *world, uint64_t line)
{
    struct snapshot *snapshot = &world->rooms->snapshots[line % SNAPSHOTS];

    return line > 0 && snapshot->line == line ? snapshot : NULL;
}

static bool are_same_counts(const struct upper *a, const struct upper *b)
{
    for (uint32_t peer = 0; peer < MAX_RANKS; peer++)
        for (uint32_t counted = 0; counted < COUNTED_KINDS; counted++)
            if (a->peers[counted][peer].sent != b->peers[counted][peer].sent ||
                a->peers[counted][peer].received != b->peers[counted][peer].received)
                return false;
    return true;
}

bool survival_is_same(const struct upper *a, const uint64_t *a_pages, const struct upper *b,
                      const uint64_t *b_pages)
{
    return a->pc == b->pc && a->is_begun == b->is_begun && a->exists == b->exists &&
           memcmp(a->clock, b->clock, sizeof(a->clock)) == 0 &&
           memcmp(&a->sent, &b->sent, sizeof(a->sent)) == 0 &&
           memcmp(&a->consumed, &b->consumed, sizeof(a->consumed)) == 0 &&
           memcmp(&a->drained, &b->drained, sizeof(a->drained)) == 0 &&
           memcmp(&a->acked, &b->acked, sizeof(a->acked)) == 0 && are_same_counts(a, b) &&
           memcmp(a_pages, b_pages, PAGES * sizeof(*a_pages)) == 0;
}

/* Has the node still the memory that it had then? */
bool survival_is_alive(const struct world *world, uint32_t node, uint64_t incarnation)
{
    return world->nodes[node].keeper.record.incarnation == incarnation;
}

/* Of the set of a rank's home no more than it has parity for. */
static bool is_set_survivable(const struct world *world, const struct snapshot *snapshot, uint32_t rank)
{
    struct parity_set set;
    uint32_t lost = 0;

    if (!parity_set_of(world->code, snapshot->member_count, snapshot->places[rank], &set))
        return false;
    for (uint32_t i = 0; i < set.size; i++) {
        uint32_t node = snapshot->members[parity_set_member(&set, i)];

        lost += !survival_is_alive(world, node, snapshot->incarnations[node]);
    }
    return lost <= set.code.parity;
}

/* Has at most what the scheme survives been lost of the rank's redundancy set since the capture? */
bool survival_is_due(const struct world *world, const struct snapshot *snapshot, uint32_t rank)
{
    uint32_t home = snapshot->home[rank], partner = snapshot->partner[rank];

    if (survival_is_alive(world, home, snapshot->incarnations[home]) &&
        is_counted(world, home, snapshot->line))
        return true;
    if (world->scheme == SCHEME_PARITY)
        return is_set_survivable(world, snapshot, rank);
    return partner != NOBODY && survival_is_alive(world, partner, snapshot->incarnations[partner]) &&
           is_counted(world, partner, snapshot->line);
}

/* The images of a node that errs are as good as lost. */
static bool is_counted(const struct world *world, uint32_t node, uint64_t line)
{
    return node != world->false_node || line > world->false_line;
}

/* Has some node right parity of a slot, at the position of this set? */
static bool has_parity(struct world *world, const struct snapshot *snapshot, uint32_t slot,
                       const struct parity_layout *layout)
{
    uint64_t pages[PAGES];

    parity_sum_of(world, layout, snapshot->pages, pages);
    for (uint32_t node = 0; node < world->node_count; node++) {
        struct parity_image found;

        if (parity_sum_find(&world->nodes[node].keeper, slot, snapshot->line, &found) &&
            memcmp(&found.layout, layout, sizeof(*layout)) == 0 &&
            memcmp(found.pages, pages, sizeof(pages)) == 0)
            return true;
        found = world->nodes[node].keeper.spares[slot];
        if (found.line == snapshot->line && memcmp(&found.layout, layout, sizeof(*layout)) == 0 &&
            memcmp(found.pages, pages, sizeof(pages)) == 0)
            return true;
    }
    return false;
}

static bool has_tables(const struct world *world, uint64_t line, uint32_t rank)
{
    for (uint32_t node = 0; node < world->node_count; node++)
        if (world->nodes[node].keeper.tables[rank].line == line ||
            world->nodes[node].keeper.tables_staging[rank].line == line)
            return true;
    return false;
}

static bool has_image(struct world *world, uint64_t line, uint32_t rank)
{
    for (uint32_t node = 0; node < world->node_count; node++)
        if (survival_has_image(world, node, line, rank))
            return true;
    return false;
}

/* Is enough left of the set for its image? */
static bool is_enough(struct world *world, const struct snapshot *snapshot, const uint32_t *places,
                      uint32_t member_count, uint32_t rank)
{
    uint32_t slot = parity_slot(places, rank);
    uint64_t line = snapshot->line;
    struct parity_layout layout = {0};
    struct epoch_rebuild plan = {.rank = rank};
    struct parity_set set;

    if (!has_tables(world, line, rank) || !parity_set_of(world->code, member_count, places[rank], &set))
        return false;
    for (uint32_t i = 0; i < set.size; i++)
        layout.ranks[i] = parity_rank(places, world->program.ranks, parity_set_member(&set, i), slot);
    layout.code = set.code;
    plan.data = set.code.data;
    plan.parity = set.code.parity;
    plan.position = set.position;
    for (uint32_t i = 0; i < PARITY_MEMBERS_MAX; i++) {
        bool is_there = i < set.size;

        layout.position = i;
        plan.ranks[i] = is_there ? layout.ranks[i] : EPOCH_NOBODY;
        plan.images[i] =
            is_there && layout.ranks[i] != PARITY_NOBODY && has_image(world, line, layout.ranks[i])
                ? i
                : EPOCH_NOBODY;
        plan.parities[i] = is_there && has_parity(world, snapshot, slot, &layout) ? i : EPOCH_NOBODY;
    }
    return epoch_rebuild_is_enough(&plan);
}

/* Of the sets of its capture, or of those of the epoch that has gone on from it. */
static bool can_be_made(struct world *world, uint64_t line, uint32_t rank)
{
    const struct snapshot *snapshot = survival_snapshot(world, line);
    const struct epoch_start *start = world->arbiter.durable;

    return is_enough(world, snapshot, snapshot->places, snapshot->member_count, rank) ||
           (start && start->line == line &&
            is_enough(world, snapshot, start->placement, start->member_count, rank));
}

/* Has the set of the rank's home all parity and all tables? */
static bool is_set_whole(struct world *world, const struct snapshot *snapshot, uint32_t rank)
{
    uint32_t slot = parity_slot(snapshot->places, rank), home = snapshot->places[rank];
    struct parity_layout layout = {0};
    struct parity_set set;

    if (!parity_set_of(world->code, snapshot->member_count, home, &set))
        return true;
    layout.code = set.code;
    for (uint32_t i = 0; i < set.size; i++)
        layout.ranks[i] =
            parity_rank(snapshot->places, world->program.ranks, parity_set_member(&set, i), slot);
    for (layout.position = 0; layout.position < set.size; layout.position++)
        if (layout.position != set.position && !has_parity(world, snapshot, slot, &layout))
            return false;
    for (uint32_t which = 0; which < set.code.parity; which++) {
        uint32_t keeper = parity_keeper(world->code, snapshot->member_count, home, which);

        if (keeper != PARITY_NOBODY &&
            world->nodes[snapshot->members[keeper]].keeper.tables[rank].line != snapshot->line &&
            world->nodes[snapshot->members[keeper]].keeper.images[rank].line != snapshot->line)
            return false;
    }
    return true;
}

/* From now on the line survives losses of the nodes of this epoch, since they had these incarnations. */
static void count_losses_of(const struct world *world, struct snapshot *snapshot, const struct agent *agent,
                            const uint64_t *incarnations)
{
    snapshot->member_count = agent->member_count;
    for (uint32_t i = 0; i < agent->member_count; i++) {
        snapshot->members[i] = agent->members[i];
        snapshot->incarnations[agent->members[i]] = incarnations[i];
    }
    for (uint32_t rank = 0; rank < world->program.ranks; rank++) {
        uint32_t partner = scheme_partner(world->scheme, agent->places[rank], agent->member_count);

        snapshot->home[rank] = agent->placement[rank];
        snapshot->places[rank] = agent->places[rank];
        snapshot->partner[rank] = partner == EPOCH_NOBODY ? NOBODY : agent->members[partner];
    }
}

/* All parity that the agent's set has to have of this line is somewhere. */
static void check_new_parity(struct world *world, const struct snapshot *snapshot, const struct agent *agent)
{
    for (uint32_t slot = 0; slot < world->program.ranks; slot++) {
        struct parity_layout layout = {.code = agent->set.code};
        uint32_t count = 0;

        for (uint32_t i = 0; i < agent->set.size; i++) {
            layout.ranks[i] =
                parity_rank(agent->places, world->program.ranks, parity_set_member(&agent->set, i), slot);
            count += layout.ranks[i] != PARITY_NOBODY;
        }
        for (layout.position = 0; layout.position < agent->set.size; layout.position++)
            if (count > (layout.ranks[layout.position] != PARITY_NOBODY) &&
                !has_parity(world, snapshot, slot, &layout))
                violate(world, "parity of slot %u at line %lu is dropped, and the new one is not whole", slot,
                        (unsigned long)snapshot->line);
    }
}

/*
 * A node drops the parity of the former set: that of the new one is there, as long as its members are. From
 * the first such drop on it is the new set that survives losses, of which some may have been meanwhile.
 */
void survival_replace(struct world *world, const struct agent *agent, uint64_t line)
{
    struct snapshot *snapshot = survival_snapshot(world, line);
    const struct epoch_start *start = world->arbiter.durable;
    bool are_all_alive = true;

    if (!snapshot || !start || agent->epoch != start->epoch)
        return;
    for (uint32_t i = 0; i < start->member_count; i++)
        are_all_alive &= survival_is_alive(world, start->members[i], start->incarnations[i]);
    if (are_all_alive)
        check_new_parity(world, snapshot, agent);
    count_losses_of(world, snapshot, agent, start->incarnations);
}

/* Has the node the right image, as far as it can be right and know which one is? */
static bool is_kept(struct world *world, uint32_t node, uint64_t line, uint32_t rank)
{
    return survival_has_image(world, node, line, rank) || !is_counted(world, node, line) ||
           !digest_is_known(&world->nodes[node].agent.roots[rank]);
}

/* From now on the line survives losses of these nodes. */
void survival_refill(struct world *world, const struct agent *agent, uint64_t line)
{
    struct snapshot *snapshot = survival_snapshot(world, line);
    uint64_t incarnations[MAX_NODES];

    if (!snapshot)
        return;
    for (uint32_t i = 0; i < agent->member_count; i++)
        if (!survival_is_alive(world, agent->members[i], world->refilled_by[agent->members[i]]))
            return;
    for (uint32_t i = 0; i < agent->member_count; i++)
        incarnations[i] = world->refilled_by[agent->members[i]];
    count_losses_of(world, snapshot, agent, incarnations);
    for (uint32_t rank = 0; rank < world->program.ranks; rank++)
        if (!is_kept(world, snapshot->home[rank], line, rank) ||
            (world->scheme == SCHEME_PARTNER && !is_kept(world, snapshot->partner[rank], line, rank)) ||
            (world->scheme == SCHEME_PARITY && !is_set_whole(world, snapshot, rank)))
            violate(world, "line %lu counts as protected again, and rank %u is not", (unsigned long)line,
                    rank);
}

/* Does some node's memory hold the rank at this line, as it was captured, or can that be made again? */
bool survival_is_held(struct world *world, uint64_t line, uint32_t rank)
{
    return has_image(world, line, rank) || (world->scheme == SCHEME_PARITY && can_be_made(world, line, rank));
}

bool survival_has_image(struct world *world, uint32_t node, uint64_t line, uint32_t rank)
{
    const struct snapshot *snapshot = survival_snapshot(world, line);
    struct image image;

    return snapshot && proof_make_image(&world->nodes[node].keeper, rank, line, &image) &&
           survival_is_same(&image.upper, image.pages, &snapshot->upper[rank], snapshot->pages[rank]);
}
