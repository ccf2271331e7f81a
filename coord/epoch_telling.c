#include "coord/epoch_telling.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/array.h"
#include "coord/epoch_message.h"

/* Numbers that are gathered. */
struct list {
    uint32_t *of;
    size_t count, room;
};

/* Ranks by member: those of a member are in their order. */
struct by_member {
    uint32_t *first; /* by member, one more than there are */
    uint32_t *ranks;
};

struct epoch_telling {
    const struct epoch_start *start;
    enum scheme scheme;
    struct parity_code code;
    struct tree tree;
    struct by_member placed, lent; /* ranks that run on a member; whose images it has, as the decision says */
    struct list members, placement, holder, processors;
    uint64_t *kinds; /* as many as runs of processors */
    /* for one member */
    struct list peers, ranks, runs;
    uint64_t *incarnations;
    struct digest *roots;
    size_t incarnation_room, root_room;
    Belay__Wire__EpochRecord record;
};

static int sort_ranks(struct by_member *by, const struct epoch_start *start, const uint32_t *members);
static int roll_members(struct epoch_telling *telling);
static int roll_places(struct list *runs, const uint32_t *places, uint32_t count);
static int note_place(struct list *runs, uint32_t member, uint32_t ranks);
static int list_peers(struct epoch_telling *telling, uint32_t index);
static int list_set(struct epoch_telling *telling, uint32_t index);
static int list_sources(struct epoch_telling *telling, uint32_t index);
static int list_ranks(struct epoch_telling *telling, uint32_t index);
static int tell_peers(struct epoch_telling *telling);
static int tell_roots(struct epoch_telling *telling);
static int add(struct list *list, uint32_t number);
static int add_ranks(struct epoch_telling *telling, const struct by_member *by, uint32_t index);
static void sort(struct list *list);

struct epoch_telling *epoch_telling_create(const struct epoch_start *start, enum scheme scheme,
                                           struct parity_code code, uint32_t arity, const char *job)
{
    struct epoch_telling *telling = calloc(1, sizeof(*telling));

    if (!telling)
        return NULL;
    telling->start = start;
    telling->scheme = scheme;
    telling->code = code;
    telling->tree = (struct tree){.count = start->member_count, .root = start->coordinator, .arity = arity};
    telling->record = epoch_message_of_start(start, job);
    if (start->member_count > 1 &&
        (sort_ranks(&telling->placed, start, start->placement) < 0 ||
         sort_ranks(&telling->lent, start, start->holder) < 0 || roll_members(telling) < 0 ||
         roll_places(&telling->placement, start->placement, start->rank_count) < 0 ||
         roll_places(&telling->holder, start->holder, start->rank_count) < 0)) {
        epoch_telling_destroy(telling);
        errno = ENOMEM;
        return NULL;
    }
    return telling;
}

void epoch_telling_destroy(struct epoch_telling *telling)
{
    int saved_errno = errno;

    if (!telling)
        return;
    free(telling->placed.first);
    free(telling->placed.ranks);
    free(telling->lent.first);
    free(telling->lent.ranks);
    free(telling->members.of);
    free(telling->placement.of);
    free(telling->holder.of);
    free(telling->processors.of);
    free(telling->kinds);
    free(telling->peers.of);
    free(telling->ranks.of);
    free(telling->runs.of);
    free(telling->incarnations);
    free(telling->roots);
    free(telling);
    errno = saved_errno;
}

Belay__Wire__EpochRecord *epoch_telling_to(struct epoch_telling *telling, uint32_t index)
{
    Belay__Wire__EpochRecord *record = &telling->record;

    if (telling->start->member_count == 1)
        return record;
    if (list_peers(telling, index) < 0 || list_ranks(telling, index) < 0 || tell_peers(telling) < 0 ||
        tell_roots(telling) < 0) {
        errno = ENOMEM;
        return NULL;
    }
    record->n_members = record->n_placement = record->n_holder = 0;
    record->member_runs = telling->members.of;
    record->n_member_runs = telling->members.count;
    record->placement_runs = telling->placement.of;
    record->n_placement_runs = telling->placement.count;
    record->holder_runs = telling->holder.of;
    record->n_holder_runs = telling->holder.count;
    record->processors = telling->kinds;
    record->processor_runs = telling->processors.of;
    record->n_processors = record->n_processor_runs = telling->processors.count;
    record->known_members = telling->peers.of;
    record->incarnations = telling->incarnations;
    record->n_known_members = record->n_incarnations = telling->peers.count;
    record->known_ranks = telling->runs.of;
    record->n_known_ranks = telling->runs.count;
    return record;
}

/* By counting: `first` is one further while ranks are entered. */
static int sort_ranks(struct by_member *by, const struct epoch_start *start, const uint32_t *members)
{
    by->first = calloc((size_t)start->member_count + 2, sizeof(*by->first));
    by->ranks = calloc((size_t)start->rank_count + 1, sizeof(*by->ranks));
    if (!by->first || !by->ranks)
        return -1;
    for (uint32_t rank = 0; rank < start->rank_count; rank++)
        by->first[members[rank] + 2]++;
    for (uint32_t i = 2; i < start->member_count + 2; i++)
        by->first[i] += by->first[i - 1];
    for (uint32_t rank = 0; rank < start->rank_count; rank++)
        by->ranks[by->first[members[rank] + 1]++] = rank;
    return 0;
}

static int roll_members(struct epoch_telling *telling)
{
    const struct epoch_start *start = telling->start;
    struct list *nodes = &telling->members, *kinds = &telling->processors;

    telling->kinds = calloc(start->member_count, sizeof(*telling->kinds));
    if (!telling->kinds)
        return -1;
    for (uint32_t i = 0; i < start->member_count; i++) {
        if (i > 0 && start->members[i] == start->members[i - 1] + 1)
            nodes->of[nodes->count - 1]++;
        else if (add(nodes, start->members[i]) < 0 || add(nodes, 1) < 0)
            return -1;
        if (i > 0 && start->processors[i] == start->processors[i - 1]) {
            kinds->of[kinds->count - 1]++;
            continue;
        }
        telling->kinds[kinds->count] = start->processors[i];
        if (add(kinds, 1) < 0)
            return -1;
    }
    return 0;
}

static int roll_places(struct list *runs, const uint32_t *places, uint32_t count)
{
    uint32_t first = 0;

    for (uint32_t rank = 1; rank <= count; rank++) {
        if (rank < count && places[rank] == places[first])
            continue;
        if (note_place(runs, places[first], rank - first) < 0)
            return -1;
        first = rank;
    }
    return 0;
}

/* So many ranks on a member: one more of the last run, if the member follows its last one, or a run. */
static int note_place(struct list *runs, uint32_t member, uint32_t ranks)
{
    uint32_t *last = runs->count > 0 ? &runs->of[runs->count - 3] : NULL;

    if (last && last[2] == ranks && last[0] + last[1] == member) {
        last[1]++;
        return 0;
    }
    return add(runs, member) < 0 || add(runs, 1) < 0 || add(runs, ranks) < 0 ? -1 : 0;
}

/* The member itself, and those with which it has a link (epoch_links.h). */
static int list_peers(struct epoch_telling *telling, uint32_t index)
{
    const struct epoch_start *start = telling->start;
    const struct by_member *placed = &telling->placed, *lent = &telling->lent;
    uint32_t parent, partner = scheme_partner(telling->scheme, index, start->member_count);
    uint32_t guest = scheme_guest(telling->scheme, index, start->member_count);
    const struct tree_part part = tree_find(&telling->tree, index, &parent);
    struct list *peers = &telling->peers;

    peers->count = 0;
    if (add(peers, index) < 0 || (parent != EPOCH_NOBODY && add(peers, parent) < 0) ||
        (partner != EPOCH_NOBODY && add(peers, partner) < 0) ||
        (guest != EPOCH_NOBODY && add(peers, guest) < 0))
        return -1;
    for (uint32_t i = 0; i < tree_child_count(&telling->tree, part); i++)
        if (add(peers, tree_member(&telling->tree, tree_child(&telling->tree, part, i).first)) < 0)
            return -1;
    for (uint32_t i = placed->first[index]; start->line > 0 && i < placed->first[index + 1]; i++)
        if (add(peers, start->holder[placed->ranks[i]]) < 0)
            return -1;
    for (uint32_t i = lent->first[index]; start->line > 0 && i < lent->first[index + 1]; i++)
        if (add(peers, start->placement[lent->ranks[i]]) < 0)
            return -1;
    if (list_set(telling, index) < 0 || list_sources(telling, index) < 0)
        return -1;
    sort(peers);
    return 0;
}

/* All members of its set. */
static int list_set(struct epoch_telling *telling, uint32_t index)
{
    struct parity_set set;

    if (!parity_set_of(telling->code, telling->start->member_count, index, &set))
        return 0;
    for (uint32_t i = 0; i < set.size; i++)
        if (add(&telling->peers, parity_set_member(&set, i)) < 0)
            return -1;
    return 0;
}

/* Members that have shares in images that it makes again, and those that make one in which it has a share. */
static int list_sources(struct epoch_telling *telling, uint32_t index)
{
    const struct epoch_start *start = telling->start;

    for (uint32_t i = 0; i < start->rebuild_count; i++) {
        const struct epoch_rebuild *rebuild = &start->rebuilds[i];
        uint32_t home = start->placement[rebuild->rank];

        for (uint32_t at = 0; at < PARITY_MEMBERS_MAX; at++) {
            const uint32_t sources[] = {rebuild->images[at], rebuild->parities[at]};

            for (int kind = 0; kind < 2; kind++) {
                bool is_its = sources[kind] != EPOCH_NOBODY && (home == index || sources[kind] == index);

                if (is_its && add(&telling->peers, home == index ? sources[kind] : home) < 0)
                    return -1;
            }
        }
    }
    return 0;
}

/* Those that run there, those of which it has the image, and those of which it keeps the copy. */
static int list_ranks(struct epoch_telling *telling, uint32_t index)
{
    uint32_t guest = scheme_guest(telling->scheme, index, telling->start->member_count);

    telling->ranks.count = 0;
    if (add_ranks(telling, &telling->placed, index) < 0 || add_ranks(telling, &telling->lent, index) < 0 ||
        (guest != EPOCH_NOBODY && add_ranks(telling, &telling->placed, guest) < 0))
        return -1;
    for (uint32_t i = 0; telling->code.parity > 0 && i < telling->start->member_count; i++)
        if (parity_is_keeper(telling->code, telling->start->member_count, i, index) &&
            add_ranks(telling, &telling->placed, i) < 0)
            return -1;
    sort(&telling->ranks);
    return 0;
}

static int tell_peers(struct epoch_telling *telling)
{
    if (array_reserve(&telling->incarnations, telling->peers.count, &telling->incarnation_room) < 0)
        return -1;
    for (size_t i = 0; i < telling->peers.count; i++)
        telling->incarnations[i] = telling->start->incarnations[telling->peers.of[i]];
    return 0;
}

/* Of the ranks whose roots are known. */
static int tell_roots(struct epoch_telling *telling)
{
    const struct list *ranks = &telling->ranks;
    struct list *runs = &telling->runs;
    size_t count = 0;

    runs->count = 0;
    if (array_reserve(&telling->roots, ranks->count + 1, &telling->root_room) < 0)
        return -1;
    for (size_t i = 0; i < ranks->count; i++) {
        const struct digest *root = &telling->start->roots[ranks->of[i]];

        if (!digest_is_known(root))
            continue;
        telling->roots[count++] = *root;
        if (runs->count > 0 && runs->of[runs->count - 2] + runs->of[runs->count - 1] == ranks->of[i])
            runs->of[runs->count - 1]++;
        else if (add(runs, ranks->of[i]) < 0 || add(runs, 1) < 0)
            return -1;
    }
    telling->record.roots =
        (ProtobufCBinaryData){.data = (uint8_t *)telling->roots, .len = count * DIGEST_BYTES};
    return 0;
}

static int add(struct list *list, uint32_t number)
{
    if (array_reserve(&list->of, list->count + 1, &list->room) < 0)
        return -1;
    list->of[list->count++] = number;
    return 0;
}

static int add_ranks(struct epoch_telling *telling, const struct by_member *by, uint32_t index)
{
    for (uint32_t i = by->first[index]; i < by->first[index + 1]; i++)
        if (add(&telling->ranks, by->ranks[i]) < 0)
            return -1;
    return 0;
}

static int compare(const void *left, const void *right)
{
    const uint32_t *one = left, *other = right;

    return *one < *other ? -1 : *one > *other;
}

/* Ascending, each once. */
static void sort(struct list *list)
{
    size_t kept = 0;

    if (list->count > 1)
        qsort(list->of, list->count, sizeof(*list->of), compare);
    for (size_t i = 0; i < list->count; i++)
        if (kept == 0 || list->of[kept - 1] != list->of[i])
            list->of[kept++] = list->of[i];
    list->count = kept;
}
