#include "coord/converge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coord/demands.h"
#include "coord/targets.h"
#include "coord/waitfor.h"

#define FIRST_CAPACITY 16u
#define NO_VERSION 0u

/* What is known of a communicator, beside its largest clock. */
struct entry {
    uint64_t above;  /* its target, as the parent has said, 0: it has not */
    uint64_t target; /* its target here, as announced */
    uint64_t said;   /* the clock that the parent has been told */
    uint32_t size;   /* its members, 0: not known */
    bool is_above;   /* its target comes from above */
    bool is_counted; /* ... where all its members have been counted */
    bool is_touched; /* on the list */
};

struct voice {
    uint32_t reporter; /* of a group */
    struct demands demands;
};

struct converge {
    const struct converge_ops *ops;
    void *context;
    struct tree_place place;
    struct tree_part part;
    uint32_t voice_count;
    uint32_t *ranks; /* that report one by one, ascending: their places are their reporters */
    uint32_t rank_count;
    struct waitfor_router router;
    struct waitfor waitfor;

    struct targets known;  /* by communicator the largest clock; its version is that of our targets */
    struct entry *entries; /* by place in known, as the next ones */
    uint32_t *seen;        /* by entry and voice: members counted */
    uint64_t *told;        /* by entry and voice: the target that the voice knows */
    uint32_t *touched;     /* entries whose clock has risen */
    struct coord_clock *out;
    uint32_t capacity, touched_count;

    uint32_t above_version; /* of the parent's targets, NO_VERSION: none yet */
    bool has_said_clocks;
    bool has_said_settled;      /* in this version of the parent */
    bool is_due;                /* our targets are, in a new version */
    bool is_ordered;            /* ... by the parent's */
    bool has_answered;          /* something, in this version of the parent */
    struct demands up;          /* ranks elsewhere for whom ranks of the subtree wait */
    struct demands down;        /* ranks of the subtree that the parent demands */
    struct coord_report report; /* said last in this version of the parent */
    struct voice voices[];
};

static int count_ranks(struct converge *converge);
static bool is_direct(const struct converge *converge, uint32_t rank);
static uint32_t voice_of(const struct converge *converge, uint32_t rank);
static uint32_t find_reporter(void *context, uint32_t rank);
static void demand_all(void *context);
static int note(struct converge *converge, uint64_t comm, uint64_t seq, uint32_t *index);
static int grow(struct converge *converge);
static uint64_t seen_of(const struct converge *converge, uint32_t index);
static bool is_complete(const struct converge *converge, uint32_t index);
static void add_out(struct converge *converge, uint32_t *count, uint32_t index);
static int release(struct converge *converge);
static void look_at_touched(struct converge *converge);
static bool may_announce(const struct converge *converge);
static void announce(struct converge *converge);
static void tell_targets(struct converge *converge, uint32_t voice);
static bool concerns(const struct converge *converge, uint32_t voice, uint32_t index);
static void demand_as_above(struct converge *converge);
static void tell_demands(struct converge *converge);
static void tell_report(struct converge *converge);

struct converge *converge_create(const struct tree_place *place, struct tree_part part,
                                 const struct converge_ops *ops, void *context)
{
    uint32_t voices = 1 + tree_child_count(&place->tree, part), groups = 0;
    struct converge *converge = calloc(1, sizeof(*converge) + voices * sizeof(*converge->voices));

    if (!converge)
        return NULL;
    converge->ops = ops;
    converge->context = context;
    converge->place = *place;
    converge->part = part;
    converge->voice_count = voices;
    if (count_ranks(converge) < 0)
        goto fail;
    for (uint32_t i = 1; i < voices; i++) {
        struct tree_part child = tree_child(&place->tree, part, i - 1);

        converge->voices[i].reporter = converge->rank_count + groups;
        groups += child.end - child.first > 1;
    }
    if (waitfor_init(&converge->waitfor, converge->rank_count + groups) < 0)
        goto fail;
    converge->router = (struct waitfor_router){.find = find_reporter,
                                               .demand_all = demand_all,
                                               .context = converge,
                                               .first_group = converge->rank_count};
    converge->waitfor.router = &converge->router;
    return converge;
fail:
    converge_destroy(converge);
    errno = ENOMEM;
    return NULL;
}

void converge_destroy(struct converge *converge)
{
    if (!converge)
        return;
    waitfor_destroy(&converge->waitfor);
    targets_destroy(&converge->known);
    free(converge->ranks);
    free(converge->entries);
    free(converge->seen);
    free(converge->told);
    free(converge->touched);
    free(converge->out);
    free(converge);
}

void converge_begin(struct converge *converge)
{
    targets_reset(&converge->known);
    waitfor_begin_version(&converge->waitfor, NO_VERSION);
    waitfor_clear_released(&converge->waitfor);
    converge->touched_count = 0;
    converge->above_version = NO_VERSION;
    converge->has_said_clocks = converge->has_said_settled = false;
    converge->is_due = converge->is_ordered = converge->has_answered = false;
    converge->up = converge->down = (struct demands){0};
}

int converge_take_clocks(struct converge *converge, uint32_t voice, const struct coord_clock *clocks,
                         uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index, *seen;
        bool is_new = targets_index(&converge->known, clocks[i].comm) == TARGETS_NONE;

        if (note(converge, clocks[i].comm, clocks[i].seq, &index) < 0)
            return -1;
        if (is_new)
            converge->entries[index].size = clocks[i].size;
        else if (converge->entries[index].size != clocks[i].size)
            converge->entries[index].size = 0;
        seen = &converge->seen[(size_t)index * converge->voice_count + voice];
        *seen = clocks[i].seen > *seen ? clocks[i].seen : *seen;
    }
    return 0;
}

int converge_say_clocks(struct converge *converge)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < converge->known.count; i++) {
        converge->entries[i].is_touched = false;
        if (!is_complete(converge, i))
            add_out(converge, &count, i);
    }
    converge->touched_count = 0;
    converge->has_said_clocks = true;
    converge->ops->say_clocks(converge->context, converge->out, count);
    return 0;
}

/* Before the parent has named targets, clocks are only told. */
int converge_settle(struct converge *converge)
{
    if (!converge->has_said_clocks)
        return 0;
    if (release(converge) < 0)
        return -1;
    look_at_touched(converge);
    if (converge->above_version == NO_VERSION)
        return 0;
    if (converge->is_due && !converge->is_ordered && waitfor_has_heard_all(&converge->waitfor))
        tell_report(converge); /* the parent waits for an answer, which the next version may delay */
    if (converge->is_due && may_announce(converge))
        announce(converge);
    tell_demands(converge);
    tell_report(converge);
    return 0;
}

int converge_take_targets(struct converge *converge, uint32_t version, const struct coord_clock *clocks,
                          uint32_t count)
{
    converge->above_version = version;
    converge->has_said_settled = converge->has_answered = false;
    converge->is_due = converge->is_ordered = true;
    converge->up = converge->down = (struct demands){0};
    converge->report = (struct coord_report){.state = COORD_RANK_RUNNING, .is_below = true};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index;

        if (note(converge, clocks[i].comm, 0, &index) < 0)
            return -1;
        converge->entries[index].is_above = true;
        converge->entries[index].above = clocks[i].seq;
        converge->entries[index].is_counted = clocks[i].size > 0;
    }
    return converge_settle(converge);
}

int converge_report(struct converge *converge, uint32_t voice, const struct coord_report *report)
{
    struct coord_report made = *report;

    if (is_direct(converge, report->rank) && voice_of(converge, report->rank) == voice)
        made.rank = find_reporter(converge, report->rank);
    else
        made.rank = converge->voices[voice].reporter;
    if (waitfor_report(&converge->waitfor, &made) < 0)
        return -1;
    return converge_settle(converge);
}

/* It holds as long as the parent's version, whatever becomes of ours. */
int converge_demand(struct converge *converge, uint32_t version, const uint32_t *ranks, uint32_t count)
{
    if (version != converge->above_version)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        demands_add(&converge->down, ranks[i]);
    if (count == 0)
        demands_add_all(&converge->down);
    demand_as_above(converge);
    return converge_settle(converge);
}

/* Those of the own member, and of children that are no branches. */
static int count_ranks(struct converge *converge)
{
    const struct tree_place *place = &converge->place;
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < place->rank_count; rank++)
        count += is_direct(converge, rank);
    converge->ranks = calloc((size_t)count + 1, sizeof(*converge->ranks));
    if (!converge->ranks)
        return -1;
    for (uint32_t rank = 0; rank < place->rank_count; rank++)
        if (is_direct(converge, rank))
            converge->ranks[converge->rank_count++] = rank;
    return 0;
}

static bool is_direct(const struct converge *converge, uint32_t rank)
{
    uint32_t voice = rank < converge->place.rank_count ? voice_of(converge, rank) : TREE_OUTSIDE;
    struct tree_part child;

    if (voice == 0 || voice == TREE_OUTSIDE)
        return voice == 0;
    child = tree_child(&converge->place.tree, converge->part, voice - 1);
    return child.end - child.first == 1;
}

/* TREE_OUTSIDE: the rank is in another subtree. */
static uint32_t voice_of(const struct converge *converge, uint32_t rank)
{
    uint32_t child = tree_child_of(&converge->place.tree, converge->part, converge->place.placement[rank]);

    return child == TREE_HEAD ? 0 : child == TREE_OUTSIDE ? TREE_OUTSIDE : child + 1;
}

static int compare(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;

    return a < b ? -1 : a > b;
}

static uint32_t find_reporter(void *context, uint32_t rank)
{
    struct converge *converge = context;
    uint32_t voice = rank < converge->place.rank_count ? voice_of(converge, rank) : TREE_OUTSIDE;
    const uint32_t *found;

    if (rank >= converge->place.rank_count)
        return WAITFOR_NOT_HERE;
    if (voice == TREE_OUTSIDE) {
        demands_add(&converge->up, rank);
        return WAITFOR_NOT_HERE;
    }
    found = bsearch(&rank, converge->ranks, converge->rank_count, sizeof(rank), compare);
    if (found)
        return (uint32_t)(found - converge->ranks);
    demands_add(&converge->voices[voice].demands, rank);
    return WAITFOR_NOT_HERE;
}

static void demand_all(void *context)
{
    struct converge *converge = context;

    demands_add_all(&converge->up);
    for (uint32_t i = 0; i < converge->voice_count; i++)
        demands_add_all(&converge->voices[i].demands);
}

/* A clock; its place in the table. */
static int note(struct converge *converge, uint64_t comm, uint64_t seq, uint32_t *index)
{
    uint32_t count = converge->known.count;
    uint64_t before = targets_find(&converge->known, comm);

    if (count == converge->capacity && grow(converge) < 0)
        return -1;
    if (targets_raise(&converge->known, comm, seq) < 0)
        return -1;
    *index = targets_index(&converge->known, comm);
    if (*index == count) {
        converge->entries[count] = (struct entry){0};
        memset(&converge->seen[(size_t)count * converge->voice_count], 0,
               converge->voice_count * sizeof(*converge->seen));
        memset(&converge->told[(size_t)count * converge->voice_count], 0,
               converge->voice_count * sizeof(*converge->told));
    }
    if (seq > before && !converge->entries[*index].is_touched) {
        converge->entries[*index].is_touched = true;
        converge->touched[converge->touched_count++] = *index;
    }
    return 0;
}

static int grow(struct converge *converge)
{
    uint32_t capacity = converge->capacity ? 2 * converge->capacity : FIRST_CAPACITY;
    struct entry *entries = realloc(converge->entries, capacity * sizeof(*entries));
    uint32_t *seen, *touched;
    uint64_t *told;
    struct coord_clock *out;

    if (entries)
        converge->entries = entries;
    seen = realloc(converge->seen, (size_t)capacity * converge->voice_count * sizeof(*seen));
    if (seen)
        converge->seen = seen;
    told = realloc(converge->told, (size_t)capacity * converge->voice_count * sizeof(*told));
    if (told)
        converge->told = told;
    touched = realloc(converge->touched, capacity * sizeof(*touched));
    if (touched)
        converge->touched = touched;
    out = realloc(converge->out, capacity * sizeof(*out));
    if (out)
        converge->out = out;
    if (!entries || !seen || !told || !touched || !out) {
        errno = ENOMEM;
        return -1;
    }
    converge->capacity = capacity;
    return 0;
}

static uint64_t seen_of(const struct converge *converge, uint32_t index)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < converge->voice_count; i++)
        sum += converge->seen[(size_t)index * converge->voice_count + i];
    return sum;
}

/* All its members are in this subtree. */
static bool is_complete(const struct converge *converge, uint32_t index)
{
    uint32_t size = converge->entries[index].size;

    return size > 0 && seen_of(converge, index) == size;
}

/* The parent will be told of this clock. From then on its target comes from above. */
static void add_out(struct converge *converge, uint32_t *count, uint32_t index)
{
    struct entry *entry = &converge->entries[index];
    const struct coord_clock *clock = &converge->known.clocks[index];
    uint64_t seen = seen_of(converge, index);

    entry->is_above = true;
    entry->said = clock->seq;
    converge->out[(*count)++] = (struct coord_clock){
        .comm = clock->comm,
        .seq = clock->seq,
        .seen = seen < converge->place.rank_count ? (uint32_t)seen : converge->place.rank_count,
        .size = entry->size};
}

static int release(struct converge *converge)
{
    for (uint32_t i = 0; i < converge->waitfor.released_count; i++) {
        const struct coord_clock *clock = &converge->waitfor.released[i];
        uint32_t index;

        if (note(converge, clock->comm, clock->seq, &index) < 0)
            return -1;
    }
    waitfor_clear_released(&converge->waitfor);
    return 0;
}

/*
 * Clocks that have risen are told above, or make a new version here. A subtree that has been said to be
 * settled makes none: its parent may have told so already, and would not hear in time that ranks move again.
 */
static void look_at_touched(struct converge *converge)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < converge->touched_count; i++) {
        uint32_t index = converge->touched[i];
        struct entry *entry = &converge->entries[index];
        uint64_t seq = converge->known.clocks[index].seq;

        entry->is_touched = false;
        if (!entry->is_above && is_complete(converge, index) && !converge->has_said_settled)
            converge->is_due |= seq > entry->target;
        else if (seq > entry->said && seq > entry->above)
            add_out(converge, &count, index);
    }
    converge->touched_count = 0;
    if (count > 0)
        converge->ops->say_clocks(converge->context, converge->out, count);
}

/*
 * Each version is reported for by all, and what was said for the one before is void. So all are heard first:
 * what they have raised and released together makes one version.
 */
static bool may_announce(const struct converge *converge)
{
    return converge->is_ordered || waitfor_has_heard_all(&converge->waitfor);
}

/* What the parent demands is demanded in the new version, too. */
static void announce(struct converge *converge)
{
    uint32_t version = targets_announce(&converge->known);

    converge->is_due = converge->is_ordered = false;
    waitfor_begin_version(&converge->waitfor, version);
    for (uint32_t i = 0; i < converge->known.count; i++) {
        struct entry *entry = &converge->entries[i];

        if (!entry->is_above)
            entry->target = converge->known.clocks[i].seq;
        else if (entry->above > entry->target)
            entry->target = entry->above;
    }
    for (uint32_t i = 0; i < converge->voice_count; i++) {
        converge->voices[i].demands = (struct demands){0};
        tell_targets(converge, i);
    }
    demand_as_above(converge);
}

/* What concerns the voice and has risen. Also if that is nothing: reports name the version. */
static void tell_targets(struct converge *converge, uint32_t voice)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < converge->known.count; i++) {
        const struct entry *entry = &converge->entries[i];
        uint64_t *told = &converge->told[(size_t)i * converge->voice_count + voice];
        bool is_counted = entry->is_above ? entry->is_counted : is_complete(converge, i);

        if (entry->target <= *told || (is_counted && !concerns(converge, voice, i)))
            continue;
        *told = entry->target;
        converge->out[count++] = (struct coord_clock){.comm = converge->known.clocks[i].comm,
                                                      .seq = entry->target,
                                                      .size = is_counted ? entry->size : 0};
    }
    converge->ops->order_targets(converge->context, voice, converge->known.version, converge->out, count);
}

/* Where all members of a communicator have been counted, some of them are the voice's. */
static bool concerns(const struct converge *converge, uint32_t voice, uint32_t index)
{
    return converge->seen[(size_t)index * converge->voice_count + voice] > 0;
}

static void demand_as_above(struct converge *converge)
{
    const struct demands *down = &converge->down;

    if (down->is_all || down->count > 0)
        waitfor_demand(&converge->waitfor, down->ranks, down->is_all ? 0 : down->count);
}

/* To children that are branches: the other ranks are known here. */
static void tell_demands(struct converge *converge)
{
    uint32_t ranks[DEMANDS_MAX];

    for (uint32_t i = 1; i < converge->voice_count; i++) {
        struct tree_part child = tree_child(&converge->place.tree, converge->part, i - 1);
        struct demands *demands = &converge->voices[i].demands;

        if (child.end - child.first == 1 || demands_are_told(demands))
            continue;
        uint32_t count = demands_tell(demands, ranks);
        converge->ops->demand(converge->context, i, converge->known.version, ranks, count);
    }
}

/* If it is another one than before, or the first one after all have been heard. */
static void tell_report(struct converge *converge)
{
    struct demands *up = &converge->up;
    struct coord_report report = {.state = COORD_RANK_RUNNING,
                                  .is_below = converge->is_due || !waitfor_is_settled(&converge->waitfor),
                                  .targets_version = converge->above_version};

    if (report.is_below == converge->report.is_below && demands_are_told(up) &&
        (converge->has_answered || !waitfor_has_heard_all(&converge->waitfor)))
        return;
    converge->has_answered = true;
    if (up->is_all || up->count > 0)
        report.state = COORD_RANK_WAITING;
    report.peers = up->ranks;
    report.peer_count = up->is_all ? 0 : up->count;
    up->told = up->count;
    up->is_all_told = up->is_all;
    converge->has_said_settled |= !report.is_below;
    converge->report = report;
    converge->ops->report(converge->context, &report);
}
