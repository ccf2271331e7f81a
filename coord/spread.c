#include "coord/spread.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "coord/budget.h"

/* When a rank is placed: the largest ones may come first. */
struct turn {
    uint64_t bytes;
    uint32_t rank;
};

/* A spread that is being made. */
struct spread {
    struct epoch_start *start;
    const struct spread_facts *facts;
    uint32_t *load;    /* by member: ranks placed there */
    uint32_t *at_most; /* by member: ranks that it gets, but for those that stay */
    struct budget *budget;
    struct rank_size *sizes; /* by rank; all zero if the program begins anew */
    struct turn *turns;      /* in which ranks are placed */
    uint32_t *heirs;         /* by member of the last epoch: heir_of() its ranks */
    bool does_count_lines;   /* members need memory for lines and copies, too */
    uint32_t extra;          /* ranks that a member may get beyond the smallest bound */
    bool has_homeless;       /* ranks that are bound to one another, and no member can take them all */
};

/* How well a member suits a rank; the first is best. */
enum fitness { FIT_HEIR = 0, FIT_HOLDER, FIT_PREDECESSOR, FIT_ANY, FIT_NOT };

static int make_room(struct spread *spread);
static int try_to_place(struct spread *spread);
static int place_all(struct spread *spread);
static int take_places(struct spread *spread);
static bool is_apart(const struct spread *spread, uint32_t rank);
static void begin_anew(struct spread *spread);
static void find_sizes(struct spread *spread);
static void order_by_size(struct spread *spread);
static uint32_t count_kept(const struct spread *spread, uint64_t kind);
static void keep_homes(struct spread *spread);
static void place_bound(struct spread *spread);
static void place_group(struct spread *spread, uint32_t first);
static bool is_torn(const struct spread *spread, uint32_t first);
static bool is_of_group(const struct spread *spread, uint32_t rank, uint32_t first);
static enum fitness fitness_of_group(const struct spread *spread, uint32_t index, uint32_t first);
static int bound_load(struct spread *spread);
static int bound_kind(struct spread *spread, uint64_t kind);
static void set_bound(struct spread *spread, uint64_t kind, uint32_t bound);
static uint64_t room_of(const struct spread *spread, uint64_t kind, uint32_t bound);
static bool place_others(struct spread *spread);
static uint32_t choose_place(const struct spread *spread, uint32_t rank);
static enum fitness fitness_of(const struct spread *spread, uint32_t index, uint32_t rank);
static enum fitness suits(const struct spread *spread, uint32_t index, uint32_t rank);
static void place(struct spread *spread, uint32_t rank, uint32_t index);
static uint32_t find_holder(const struct spread *spread, uint32_t rank, uint32_t place);
static uint32_t heir_of(const struct spread *spread, uint32_t rank);
static uint32_t partner_of(const struct spread *spread, uint32_t index);
static bool has_image(const struct spread *spread, uint32_t index, uint32_t rank);
static uint64_t kind_of_member(const struct spread *spread, uint32_t index);
static uint64_t kind_of_rank(const struct spread *spread, uint32_t rank);
static bool has_room(const struct spread *spread, uint32_t index);
static void find_burdens(const struct spread *spread, uint32_t rank, uint32_t index, struct burden *burden,
                         struct burden *of_partner);
static bool has_memory(const struct spread *spread, uint32_t index, uint32_t rank);
static uint32_t smaller(uint32_t one, uint32_t other);

int spread_ranks(struct epoch_start *start, const struct spread_facts *facts)
{
    struct spread spread = {.start = start, .facts = facts};
    int rc = make_room(&spread) < 0 ? ENOMEM : 0;

    if (facts->lack)
        facts->lack->rank = EPOCH_NOBODY;
    if (rc == 0) {
        find_sizes(&spread);
        rc = facts->placed ? take_places(&spread) : place_all(&spread);
    }
    free(spread.load);
    free(spread.sizes);
    free(spread.turns);
    free(spread.heirs);
    budget_destroy(spread.budget);
    errno = rc;
    return rc == 0 ? 0 : -1;
}

static int make_room(struct spread *spread)
{
    const struct epoch_start *start = spread->start;
    size_t formers = spread->facts->last ? spread->facts->last->member_count : 0;

    spread->load = calloc(2 * (size_t)start->member_count, sizeof(*spread->load));
    spread->sizes = calloc((size_t)start->rank_count + 1, sizeof(*spread->sizes));
    spread->turns = calloc((size_t)start->rank_count + 1, sizeof(*spread->turns));
    spread->heirs = calloc(formers + 1, sizeof(*spread->heirs));
    spread->budget = budget_create(start->member_count);
    if (!spread->load || !spread->sizes || !spread->turns || !spread->heirs || !spread->budget)
        return -1;
    for (size_t i = 0; i < formers; i++)
        spread->heirs[i] = EPOCH_NOBODY;
    for (uint32_t i = start->member_count; i-- > 0;)
        if (spread->facts->members[i].former < formers)
            spread->heirs[spread->facts->members[i].former] = i;
    spread->at_most = spread->load + start->member_count;
    for (uint32_t rank = 0; rank < start->rank_count; rank++)
        spread->turns[rank].rank = rank;
    return 0;
}

/* As even as possible; with room for lines if there is any such way. Returns 0 or an errno. */
static int place_all(struct spread *spread)
{
    uint32_t ranks = spread->start->rank_count;
    int rc = ENOSPC;

    for (int pass = 0; pass < 2 && rc == ENOSPC; pass++) {
        spread->does_count_lines = pass == 0;
        spread->extra = 0;
        rc = try_to_place(spread);
        order_by_size(spread); /* the largest ones are the hardest to place */
        for (uint32_t extra = 0; rc == ENOSPC && extra < 2 * ranks; extra = 2 * extra + 1) {
            spread->extra = extra;
            rc = try_to_place(spread);
        }
    }
    return rc;
}

/* Returns 0 or EXDEV. Whether there is memory is seen when it is used. */
static int take_places(struct spread *spread)
{
    const struct epoch_start *start = spread->start;

    begin_anew(spread);
    for (uint32_t rank = 0; rank < start->rank_count; rank++) {
        uint32_t node = rank < spread->facts->placed_count ? spread->facts->placed[rank] : EPOCH_NOBODY;
        uint32_t index = epoch_start_index(start, node);

        if (index == EPOCH_NOBODY || kind_of_member(spread, index) != kind_of_rank(spread, rank))
            return EXDEV;
        place(spread, rank, index);
        if (is_apart(spread, rank))
            return EXDEV;
    }
    return spread->facts->placed_count == start->rank_count ? 0 : EXDEV;
}

/* From the first bound rank that ran on the same member, with which it is bound. */
static bool is_apart(const struct spread *spread, uint32_t rank)
{
    const struct epoch_start *last = spread->facts->last;

    for (uint32_t other = 0; last && rank < last->rank_count && spread->sizes[rank].is_bound && other < rank;
         other++)
        if (spread->sizes[other].is_bound && last->placement[other] == last->placement[rank])
            return spread->start->placement[other] != spread->start->placement[rank];
    return false;
}

/* Returns 0, ENOSPC or EXDEV. */
static int try_to_place(struct spread *spread)
{
    int rc;

    begin_anew(spread);
    keep_homes(spread);
    rc = bound_load(spread);
    if (rc == 0 && (spread->has_homeless || !place_others(spread)))
        rc = ENOSPC;
    return rc;
}

static void begin_anew(struct spread *spread)
{
    spread->has_homeless = false;
    for (uint32_t i = 0; i < spread->start->member_count; i++) {
        spread->load[i] = spread->at_most[i] = 0;
        budget_set(spread->budget, i, &spread->facts->members[i].memory);
    }
}

/* What its holders say; the largest, if they differ. */
static void find_sizes(struct spread *spread)
{
    const struct epoch_start *start = spread->start;

    for (uint32_t i = 0; start->line > 0 && i < start->member_count; i++) {
        const struct spread_member *member = &spread->facts->members[i];
        uint32_t count = member->memory.sizes ? member->held_count : 0;

        for (uint32_t part = 0; part < count; part++) {
            const struct rank_size *size = &member->memory.sizes[part];
            uint32_t rank = member->ranks ? member->ranks[part] : part;

            if (rank >= start->rank_count)
                break;
            if (size->image_bytes > spread->sizes[rank].image_bytes)
                spread->sizes[rank].image_bytes = size->image_bytes;
            if (size->line_bytes > spread->sizes[rank].line_bytes)
                spread->sizes[rank].line_bytes = size->line_bytes;
            spread->sizes[rank].is_bound |= size->is_bound;
        }
    }
}

static int compare_turns(const void *left, const void *right)
{
    const struct turn *one = left, *other = right;

    if (one->bytes != other->bytes)
        return one->bytes > other->bytes ? -1 : 1;
    return one->rank < other->rank ? -1 : one->rank > other->rank;
}

static void order_by_size(struct spread *spread)
{
    uint32_t count = spread->start->rank_count;

    for (uint32_t i = 0; i < count; i++)
        spread->turns[i].bytes = spread->sizes[spread->turns[i].rank].image_bytes;
    qsort(spread->turns, count, sizeof(*spread->turns), compare_turns);
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

/* Not on a member that has taken the place of its node, and may hold a copy. */
static bool ran_there(const struct spread *spread, uint32_t index, uint32_t rank)
{
    const struct epoch_start *last = spread->facts->last;

    return last && rank < last->rank_count &&
           last->members[last->placement[rank]] == spread->start->members[index];
}

/* Before all others: they count for their members' part. Those that stay come first. */
static void place_bound(struct spread *spread)
{
    const struct epoch_start *last = spread->facts->last;
    uint32_t count = last ? smaller(spread->start->rank_count, last->rank_count) : 0;

    for (uint32_t rank = 0; rank < count; rank++) {
        uint32_t home = heir_of(spread, rank);

        if (spread->sizes[rank].is_bound && home != EPOCH_NOBODY && ran_there(spread, home, rank) &&
            kind_of_member(spread, home) == kind_of_rank(spread, rank) && has_room(spread, home))
            place(spread, rank, home);
    }
    for (uint32_t rank = 0; rank < count; rank++)
        if (spread->start->placement[rank] == EPOCH_NOBODY && spread->sizes[rank].is_bound)
            place_group(spread, rank);
}

/* All bound ranks that ran on the member of this one. */
static void place_group(struct spread *spread, uint32_t first)
{
    const struct epoch_start *last = spread->facts->last;
    uint32_t best = EPOCH_NOBODY, count = spread->start->member_count;
    enum fitness fitness = FIT_NOT;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = (spread->facts->first + first + i) % count;
        enum fitness its = fitness_of_group(spread, index, first);

        if (its > fitness || its == FIT_NOT || (its == fitness && spread->load[index] >= spread->load[best]))
            continue;
        best = index;
        fitness = its;
    }
    if (best == EPOCH_NOBODY || is_torn(spread, first)) {
        spread->has_homeless = true;
        if (spread->facts->lack)
            *spread->facts->lack =
                (struct spread_lack){.rank = first, .image_bytes = spread->sizes[first].image_bytes};
        return;
    }
    for (uint32_t rank = first; rank < spread->start->rank_count && rank < last->rank_count; rank++)
        if (is_of_group(spread, rank, first))
            place(spread, rank, best);
}

/* There was room for others of the group where they ran, and no more. */
static bool is_torn(const struct spread *spread, uint32_t first)
{
    const struct epoch_start *last = spread->facts->last;

    for (uint32_t rank = 0; rank < first; rank++)
        if (spread->sizes[rank].is_bound && last->placement[rank] == last->placement[first])
            return true;
    return false;
}

static bool is_of_group(const struct spread *spread, uint32_t rank, uint32_t first)
{
    const struct epoch_start *last = spread->facts->last;

    return spread->start->placement[rank] == EPOCH_NOBODY &&
           last->placement[rank] == last->placement[first] && spread->sizes[rank].is_bound;
}

/* That of its first rank, if there is room for all; memory is there for those that stay. */
static enum fitness fitness_of_group(const struct spread *spread, uint32_t index, uint32_t first)
{
    const struct epoch_start *last = spread->facts->last;
    struct burden all = {.member = index}, of_partner = {.member = EPOCH_NOBODY};
    uint32_t room = spread->facts->members[index].room, count = 0;

    for (uint32_t rank = first; rank < spread->start->rank_count && rank < last->rank_count; rank++) {
        struct burden burden, its;

        if (!is_of_group(spread, rank, first))
            continue;
        count++;
        find_burdens(spread, rank, index, &burden, &its);
        all.image_bytes += burden.image_bytes;
        all.memory_bytes += burden.memory_bytes;
        its.image_bytes += of_partner.image_bytes;
        of_partner = its;
    }
    if (room < spread->load[index] || room - spread->load[index] < count ||
        kind_of_member(spread, index) != kind_of_rank(spread, first) ||
        (!ran_there(spread, index, first) && !budget_fits(spread->budget, &all, &of_partner)))
        return FIT_NOT;
    return suits(spread, index, first);
}

static void keep_homes(struct spread *spread)
{
    struct epoch_start *start = spread->start;
    uint64_t kind = 0;
    uint32_t most = 0;

    for (uint32_t rank = 0; rank < start->rank_count; rank++)
        start->placement[rank] = EPOCH_NOBODY;
    place_bound(spread);
    for (uint32_t rank = 0; rank < start->rank_count; rank++) {
        uint32_t home = heir_of(spread, rank);

        if (rank == 0 || kind_of_rank(spread, rank) != kind) {
            kind = kind_of_rank(spread, rank);
            most = count_kept(spread, kind);
        }
        if (start->placement[rank] == EPOCH_NOBODY && home != EPOCH_NOBODY && has_image(spread, home, rank) &&
            has_room(spread, home) && kind_of_member(spread, home) == kind && spread->load[home] < most &&
            (ran_there(spread, home, rank) || has_memory(spread, home, rank)))
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
        set_bound(spread, kind, bound + spread->extra);
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

/* False: no member that may have one more has memory for a rank. */
static bool place_others(struct spread *spread)
{
    for (uint32_t i = 0; i < spread->start->rank_count; i++) {
        uint32_t rank = spread->turns[i].rank, index;

        if (spread->start->placement[rank] != EPOCH_NOBODY)
            continue;
        index = choose_place(spread, rank);
        if (index == EPOCH_NOBODY) {
            if (spread->facts->lack)
                *spread->facts->lack =
                    (struct spread_lack){.rank = rank, .image_bytes = spread->sizes[rank].image_bytes};
            return false;
        }
        place(spread, rank, index);
    }
    return true;
}

/* There is one by the bound; EPOCH_NOBODY: none has memory for it. */
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
    if (!has_room(spread, index) || spread->load[index] >= spread->at_most[index] ||
        kind_of_member(spread, index) != kind_of_rank(spread, rank) || !has_memory(spread, index, rank))
        return FIT_NOT;
    return suits(spread, index, rank);
}

static enum fitness suits(const struct spread *spread, uint32_t index, uint32_t rank)
{
    uint32_t partner = partner_of(spread, index);

    if (spread->start->line > 0 && heir_of(spread, rank) == index)
        return FIT_HEIR;
    if (has_image(spread, index, rank))
        return FIT_HOLDER;
    return partner != EPOCH_NOBODY && has_image(spread, partner, rank) ? FIT_PREDECESSOR : FIT_ANY;
}

static void place(struct spread *spread, uint32_t rank, uint32_t index)
{
    struct burden burden, of_partner;

    find_burdens(spread, rank, index, &burden, &of_partner);
    budget_charge(spread->budget, &burden);
    budget_charge(spread->budget, &of_partner);
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

    return last && rank < last->rank_count ? spread->heirs[last->placement[rank]] : EPOCH_NOBODY;
}

static uint32_t partner_of(const struct spread *spread, uint32_t index)
{
    return scheme_partner(spread->facts->scheme, index, spread->start->member_count);
}

static bool has_image(const struct spread *spread, uint32_t index, uint32_t rank)
{
    const struct spread_member *member = &spread->facts->members[index];
    uint32_t part =
        spread->start->line > 0 ? epoch_state_part(member->ranks, member->held_count, rank) : EPOCH_NOBODY;

    return part != EPOCH_NOBODY && holding_has(&member->held[part], spread->start->line);
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

/* A member holds m/k of images like its own; what a line makes anew of them is staged. */
static uint64_t parity_bytes(const struct spread *spread, uint32_t index, uint64_t bytes)
{
    struct parity_set set;

    if (spread->facts->scheme != SCHEME_PARITY ||
        !parity_set_of(spread->facts->code, spread->start->member_count, index, &set))
        return 0;
    return bytes / set.code.data * set.code.parity;
}

/* What a rank needs on a member, and on the member that keeps its copy. */
static void find_burdens(const struct spread *spread, uint32_t rank, uint32_t index, struct burden *burden,
                         struct burden *of_partner)
{
    const struct rank_size *size = &spread->sizes[rank];
    uint32_t partner = partner_of(spread, index);
    uint64_t line_bytes = spread->does_count_lines ? size->line_bytes : 0;

    *burden = (struct burden){.member = index, .image_bytes = line_bytes, .memory_bytes = size->image_bytes};
    if (!has_image(spread, index, rank))
        burden->image_bytes += size->image_bytes;
    if (spread->does_count_lines)
        burden->image_bytes += parity_bytes(spread, index, size->image_bytes + size->line_bytes);
    *of_partner = (struct burden){.member = EPOCH_NOBODY};
    if (!spread->does_count_lines || partner == EPOCH_NOBODY)
        return;
    *of_partner = (struct burden){.member = partner, .image_bytes = line_bytes};
    if (!has_image(spread, partner, rank))
        of_partner->image_bytes += size->image_bytes;
}

static bool has_memory(const struct spread *spread, uint32_t index, uint32_t rank)
{
    struct burden burden, of_partner;

    find_burdens(spread, rank, index, &burden, &of_partner);
    return budget_fits(spread->budget, &burden, &of_partner);
}

static uint32_t smaller(uint32_t one, uint32_t other)
{
    return one < other ? one : other;
}
