#include "coord/spread.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* A spread that is being made. */
struct spread {
    struct epoch_start *start;
    const struct spread_facts *facts;
    uint32_t *load;    /* by member: ranks placed there */
    uint32_t *at_most; /* by member: ranks that it gets, but for those that stay */
};

/* How well a member suits a rank; the first is best. */
enum fitness { FIT_HEIR = 0, FIT_HOLDER, FIT_PREDECESSOR, FIT_ANY, FIT_NOT };

static uint32_t count_kept(const struct spread *spread, uint64_t kind);
static void keep_homes(struct spread *spread);
static int bound_load(struct spread *spread);
static int bound_kind(struct spread *spread, uint64_t kind);
static void set_bound(struct spread *spread, uint64_t kind, uint32_t bound);
static uint64_t room_of(const struct spread *spread, uint64_t kind, uint32_t bound);
static void place_others(struct spread *spread);
static uint32_t choose_place(const struct spread *spread, uint32_t rank);
static enum fitness fitness_of(const struct spread *spread, uint32_t index, uint32_t rank);
static void place(struct spread *spread, uint32_t rank, uint32_t index);
static uint32_t find_holder(const struct spread *spread, uint32_t rank, uint32_t place);
static uint32_t heir_of(const struct spread *spread, uint32_t rank);
static uint32_t partner_of(const struct spread *spread, uint32_t index);
static bool has_image(const struct spread *spread, uint32_t index, uint32_t rank);
static uint64_t kind_of_member(const struct spread *spread, uint32_t index);
static uint64_t kind_of_rank(const struct spread *spread, uint32_t rank);
static bool has_room(const struct spread *spread, uint32_t index);
static uint32_t smaller(uint32_t one, uint32_t other);

int spread_ranks(struct epoch_start *start, const struct spread_facts *facts)
{
    struct spread spread = {.start = start, .facts = facts};
    int rc;

    spread.load = calloc(2 * (size_t)start->member_count, sizeof(*spread.load));
    if (!spread.load)
        return -1;
    spread.at_most = spread.load + start->member_count;
    keep_homes(&spread);
    rc = bound_load(&spread);
    if (rc == 0)
        place_others(&spread);
    free(spread.load);
    errno = rc;
    return rc == 0 ? 0 : -1;
}

/*
 * So many of its ranks a member of this kind keeps: all, unless there is one of the kind more than before,
 * which takes its part.
 */
static uint32_t count_kept(const struct spread *spread, uint64_t kind)
{
    const struct epoch_start *start = spread->start;
    uint32_t members = 0, ranks = 0;
    bool has_more = false;

    for (uint32_t i = 0; i < start->member_count; i++) {
        if (kind_of_member(spread, i) != kind || spread->facts->members[i].room == 0)
            continue;
        members++;
        has_more |= spread->facts->last && spread->facts->members[i].former == EPOCH_NOBODY;
    }
    for (uint32_t rank = 0; has_more && rank < start->rank_count; rank++)
        ranks += kind_of_rank(spread, rank) == kind;
    return has_more ? (ranks + members - 1) / members : start->rank_count;
}

static void keep_homes(struct spread *spread)
{
    struct epoch_start *start = spread->start;
    uint64_t kind = 0;
    uint32_t most = 0;

    for (uint32_t rank = 0; rank < start->rank_count; rank++) {
        uint32_t home = heir_of(spread, rank);

        start->placement[rank] = EPOCH_NOBODY;
        if (rank == 0 || kind_of_rank(spread, rank) != kind) {
            kind = kind_of_rank(spread, rank);
            most = count_kept(spread, kind);
        }
        if (home != EPOCH_NOBODY && has_image(spread, home, rank) && has_room(spread, home) &&
            kind_of_member(spread, home) == kind && spread->load[home] < most)
            place(spread, rank, home);
    }
}

/* For each kind of processors by itself. Returns 0, ENOSPC or EXDEV. */
static int bound_load(struct spread *spread)
{
    const struct epoch_start *start = spread->start;

    for (uint32_t rank = 0; rank < start->rank_count; rank++) {
        uint64_t kind = kind_of_rank(spread, rank);
        uint32_t index = 0;

        while (index < start->member_count && kind_of_member(spread, index) != kind)
            index++;
        if (index == start->member_count)
            return EXDEV;
        if (start->placement[rank] == EPOCH_NOBODY && spread->at_most[index] == 0 &&
            bound_kind(spread, kind) < 0)
            return ENOSPC;
    }
    return 0;
}

/* The smallest bound with which all ranks of the kind can be placed. */
static int bound_kind(struct spread *spread, uint64_t kind)
{
    uint32_t left = 0;

    for (uint32_t rank = 0; rank < spread->start->rank_count; rank++)
        left += spread->start->placement[rank] == EPOCH_NOBODY && kind_of_rank(spread, rank) == kind;
    for (uint32_t bound = 1; bound <= spread->start->rank_count; bound++) {
        if (room_of(spread, kind, bound) < left)
            continue;
        set_bound(spread, kind, bound);
        return 0;
    }
    return -1;
}

static void set_bound(struct spread *spread, uint64_t kind, uint32_t bound)
{
    for (uint32_t i = 0; i < spread->start->member_count; i++)
        if (kind_of_member(spread, i) == kind)
            spread->at_most[i] = bound;
}

/* Ranks that members of the kind can take with this bound, beyond those that they have. */
static uint64_t room_of(const struct spread *spread, uint64_t kind, uint32_t bound)
{
    uint64_t room = 0;

    for (uint32_t i = 0; i < spread->start->member_count; i++) {
        uint32_t most = smaller(bound, spread->facts->members[i].room);

        if (kind_of_member(spread, i) == kind && most > spread->load[i])
            room += most - spread->load[i];
    }
    return room;
}

static void place_others(struct spread *spread)
{
    for (uint32_t rank = 0; rank < spread->start->rank_count; rank++)
        if (spread->start->placement[rank] == EPOCH_NOBODY)
            place(spread, rank, choose_place(spread, rank));
}

/* There is one: the bound says so. */
static uint32_t choose_place(const struct spread *spread, uint32_t rank)
{
    uint32_t count = spread->start->member_count, best = EPOCH_NOBODY;
    enum fitness fitness = FIT_NOT;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = (spread->facts->first + rank + i) % count;
        enum fitness its = fitness_of(spread, index, rank);

        if (its > fitness || its == FIT_NOT || (its == fitness && spread->load[index] >= spread->load[best]))
            continue;
        best = index;
        fitness = its;
    }
    return best;
}

static enum fitness fitness_of(const struct spread *spread, uint32_t index, uint32_t rank)
{
    uint32_t partner = partner_of(spread, index);

    if (!has_room(spread, index) || spread->load[index] >= spread->at_most[index] ||
        kind_of_member(spread, index) != kind_of_rank(spread, rank))
        return FIT_NOT;
    if (spread->start->line > 0 && heir_of(spread, rank) == index)
        return FIT_HEIR;
    if (has_image(spread, index, rank))
        return FIT_HOLDER;
    return partner != EPOCH_NOBODY && has_image(spread, partner, rank) ? FIT_PREDECESSOR : FIT_ANY;
}

static void place(struct spread *spread, uint32_t rank, uint32_t index)
{
    spread->start->placement[rank] = index;
    spread->start->holder[rank] = find_holder(spread, rank, index);
    spread->load[index]++;
}

/* The place itself if it has the image, else its partner, else anybody; the place if nobody has one. */
static uint32_t find_holder(const struct spread *spread, uint32_t rank, uint32_t place)
{
    uint32_t count = spread->start->member_count, partner = partner_of(spread, place);

    if (has_image(spread, place, rank))
        return place;
    if (partner != EPOCH_NOBODY && has_image(spread, partner, rank))
        return partner;
    for (uint32_t i = 0; i < count; i++)
        if (has_image(spread, (place + i) % count, rank))
            return (place + i) % count;
    return place;
}

/* The member for which a rank is that ran in the last epoch: it was there, or has taken that place. */
static uint32_t heir_of(const struct spread *spread, uint32_t rank)
{
    const struct epoch_start *last = spread->facts->last;

    for (uint32_t i = 0; last && rank < last->rank_count && i < spread->start->member_count; i++)
        if (spread->facts->members[i].former == last->placement[rank])
            return i;
    return EPOCH_NOBODY;
}

static uint32_t partner_of(const struct spread *spread, uint32_t index)
{
    return scheme_partner(spread->facts->scheme, index, spread->start->member_count);
}

static bool has_image(const struct spread *spread, uint32_t index, uint32_t rank)
{
    const struct spread_member *member = &spread->facts->members[index];

    return spread->start->line > 0 && rank < member->held_count &&
           holding_has(&member->held[rank], spread->start->line);
}

/* Of processors; a program that begins anew begins anywhere. */
static uint64_t kind_of_member(const struct spread *spread, uint32_t index)
{
    return spread->start->line > 0 ? spread->facts->members[index].processor : 0;
}

/* Of the processors that it ran on, and so of those that its image is for. */
static uint64_t kind_of_rank(const struct spread *spread, uint32_t rank)
{
    const struct epoch_start *last = spread->facts->last;

    return spread->start->line > 0 && last && rank < last->rank_count
               ? last->processors[last->placement[rank]]
               : 0;
}

static bool has_room(const struct spread *spread, uint32_t index)
{
    return spread->load[index] < spread->facts->members[index].room;
}

static uint32_t smaller(uint32_t one, uint32_t other)
{
    return one < other ? one : other;
}
