#include "coord/arbiter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coord/domains.h"
#include "coord/spread.h"

/* What the arbiter knows of one node. */
struct node {
    bool is_gone;      /* with its memory: nothing is expected of it */
    bool has_answered; /* the inquiry; state is valid */
    bool is_listed;    /* among the members of the epoch that is opened */
    struct epoch_state state;
    struct holding *held;
    uint64_t granted_us; /* last lease that it may have been given */
    uint32_t former; /* of a node that becomes a member: the one of the last epoch that it was, or whose place
                        it takes; EPOCH_NOBODY: none */
};

struct arbiter {
    struct arbiter_settings settings;
    arbiter_action_f emit;
    void *context;
    struct epoch_start *record; /* NULL: no epoch yet */
    struct node *nodes;
    uint32_t *listed; /* nodes that become members, in their order */
    uint32_t listed_count;
    uint32_t *domains, *room; /* by node, and room to arrange them; NULL: each node is a domain */
    bool is_inquiring;
    uint64_t inquiry_us; /* began then */
    uint64_t asked_us;   /* last time */
    enum arbiter_want want;
};

static int copy_domains(struct arbiter *arbiter);
static int take_state(struct arbiter *arbiter, const struct arbiter_event *event);
static int take_renewal(struct arbiter *arbiter, const struct arbiter_event *event);
static int take_trouble(struct arbiter *arbiter, const struct arbiter_event *event);
static int take_lost_link(struct arbiter *arbiter, const struct arbiter_event *event);
static int take_tick(struct arbiter *arbiter, const struct arbiter_event *event);
static int take_placement(struct arbiter *arbiter, const struct arbiter_event *event);
static int take_end_of_node(struct arbiter *arbiter, const struct arbiter_event *event);
static void inquire(struct arbiter *arbiter, uint64_t now_us);
static void ask(struct arbiter *arbiter, uint64_t now_us);
static int decide(struct arbiter *arbiter, uint64_t now_us);
static bool is_time_to_decide(const struct arbiter *arbiter, uint64_t now_us);
static enum arbiter_want choose_line(const struct arbiter *arbiter, uint64_t *line);
static uint64_t candidate_of(const struct arbiter *arbiter, uint64_t committed);
static bool has_protected(const struct arbiter *arbiter, const struct node *node, uint64_t line);
static bool is_disproved(const struct arbiter *arbiter, uint64_t line);
static bool is_survivor(const struct arbiter *arbiter, uint32_t index);
static bool is_held(const struct arbiter *arbiter, uint64_t line);
static bool is_held_of(const struct arbiter *arbiter, uint64_t line, uint32_t rank);
static bool holds(const struct node *node, uint64_t line, uint32_t rank);
static int open_epoch(struct arbiter *arbiter, uint64_t line, uint64_t now_us);
static struct epoch_start *make_start(const struct arbiter *arbiter, uint64_t line);
static void list_members(struct arbiter *arbiter, uint64_t line);
static void list_member(struct arbiter *arbiter, uint32_t node, uint32_t former);
static uint32_t find_only_holder(const struct arbiter *arbiter, uint64_t line, uint32_t rank);
static void arrange(struct arbiter *arbiter);
static uint32_t find_newcomer(const struct arbiter *arbiter, uint32_t lost);
static uint32_t count_members(const struct arbiter *arbiter);
static int place_ranks(struct arbiter *arbiter, struct epoch_start *start);
static int record(struct arbiter *arbiter, struct epoch_start *start);
static void tell(struct arbiter *arbiter);
static uint32_t choose(const struct arbiter *arbiter, uint32_t epoch, uint32_t what, uint32_t count);
static uint32_t next_epoch(const struct arbiter *arbiter);
static uint32_t rank_count(const struct arbiter *arbiter);
static uint32_t member_count(const struct arbiter *arbiter);
static struct node *member(const struct arbiter *arbiter, uint32_t index);
static uint32_t count_answers(const struct arbiter *arbiter);
static uint32_t count_expected(const struct arbiter *arbiter);

struct arbiter *arbiter_create(const struct arbiter_settings *settings, const struct epoch_start *recorded,
                               arbiter_action_f emit, void *context)
{
    struct arbiter *arbiter;

    if (settings->node_count == 0 || (recorded && !epoch_start_is_valid(recorded))) {
        errno = EINVAL;
        return NULL;
    }
    for (uint32_t i = 0; recorded && i < recorded->member_count; i++) {
        if (recorded->members[i] >= settings->node_count) {
            errno = EINVAL;
            return NULL;
        }
    }
    arbiter = calloc(1, sizeof(*arbiter));
    if (!arbiter)
        return NULL;
    arbiter->settings = *settings;
    arbiter->emit = emit;
    arbiter->context = context;
    arbiter->nodes = calloc(settings->node_count, sizeof(*arbiter->nodes));
    arbiter->listed = calloc(settings->node_count, sizeof(*arbiter->listed));
    arbiter->record = recorded ? epoch_start_copy(recorded) : NULL;
    if (!arbiter->nodes || !arbiter->listed || (recorded && !arbiter->record) ||
        (settings->domains && copy_domains(arbiter) < 0)) {
        arbiter_destroy(arbiter);
        errno = ENOMEM;
        return NULL;
    }
    return arbiter;
}

static int copy_domains(struct arbiter *arbiter)
{
    size_t count = arbiter->settings.node_count;

    arbiter->domains = calloc(count, sizeof(*arbiter->domains));
    arbiter->room = calloc(3 * count, sizeof(*arbiter->room));
    if (!arbiter->domains || !arbiter->room)
        return -1;
    memcpy(arbiter->domains, arbiter->settings.domains, count * sizeof(*arbiter->domains));
    return 0;
}

void arbiter_destroy(struct arbiter *arbiter)
{
    int saved_errno = errno;

    if (!arbiter)
        return;
    for (uint32_t i = 0; arbiter->nodes && i < arbiter->settings.node_count; i++)
        free(arbiter->nodes[i].held);
    free(arbiter->nodes);
    free(arbiter->listed);
    free(arbiter->domains);
    free(arbiter->room);
    free(arbiter->record);
    free(arbiter);
    errno = saved_errno;
}

int arbiter_step(struct arbiter *arbiter, const struct arbiter_event *event)
{
    if (event->node >= arbiter->settings.node_count) {
        errno = EINVAL;
        return -1;
    }
    switch (event->type) {
    case ARBITER_EVENT_BEGIN:
        for (uint32_t i = 0; i < arbiter->settings.node_count; i++)
            arbiter->nodes[i].granted_us = event->now_us; /* a predecessor may have granted until now */
        inquire(arbiter, event->now_us);
        return 0;
    case ARBITER_EVENT_TICK:
        return take_tick(arbiter, event);
    case ARBITER_EVENT_STATE:
        return take_state(arbiter, event);
    case ARBITER_EVENT_RENEW:
        return take_renewal(arbiter, event);
    case ARBITER_EVENT_TROUBLE:
        return take_trouble(arbiter, event);
    case ARBITER_EVENT_LINK_LOST:
        return take_lost_link(arbiter, event);
    case ARBITER_EVENT_PLACED:
        return take_placement(arbiter, event);
    case ARBITER_EVENT_GONE:
        return take_end_of_node(arbiter, event);
    default:
        errno = EINVAL;
        return -1;
    }
}

uint64_t arbiter_wake_us(const struct arbiter *arbiter)
{
    uint64_t wake_us = UINT64_MAX;

    if (arbiter->is_inquiring)
        return arbiter->asked_us + arbiter->settings.repeat_us;
    if (arbiter->settings.lease_us == 0)
        return UINT64_MAX;
    for (uint32_t i = 0; i < member_count(arbiter); i++) {
        uint64_t lapse_us = member(arbiter, i)->granted_us + arbiter->settings.lease_us + 1;

        wake_us = lapse_us < wake_us ? lapse_us : wake_us;
    }
    return wake_us;
}

const struct epoch_start *arbiter_record(const struct arbiter *arbiter)
{
    return arbiter->record;
}

bool arbiter_is_inquiring(const struct arbiter *arbiter)
{
    return arbiter->is_inquiring;
}

enum arbiter_want arbiter_wants(const struct arbiter *arbiter)
{
    return arbiter->want;
}

bool arbiter_is_stuck(const struct arbiter *arbiter)
{
    bool is_wanting = arbiter->want == ARBITER_WANT_SURVIVOR || arbiter->want == ARBITER_WANT_DATA ||
                      arbiter->want == ARBITER_WANT_NODES;

    return is_wanting && count_answers(arbiter) == count_expected(arbiter);
}

static int take_state(struct arbiter *arbiter, const struct arbiter_event *event)
{
    struct node *node = &arbiter->nodes[event->node];
    uint32_t count = event->state.held_count;
    struct holding *held;

    if (!arbiter->is_inquiring || node->is_gone || event->epoch != next_epoch(arbiter))
        return 0;
    held = calloc(count ? count : 1, sizeof(*held));
    if (!held)
        return -1;
    if (count > 0)
        memcpy(held, event->state.held, count * sizeof(*held));
    free(node->held);
    node->held = held;
    node->state = event->state;
    node->state.held = held;
    node->has_answered = true;
    return decide(arbiter, event->now_us);
}

static bool speaks_of_now(const struct arbiter *arbiter, const struct arbiter_event *event)
{
    uint32_t index = arbiter->record ? epoch_start_index(arbiter->record, event->node) : EPOCH_NOBODY;

    return !arbiter->is_inquiring && index != EPOCH_NOBODY && event->epoch == arbiter->record->epoch &&
           event->incarnation == arbiter->record->incarnations[index];
}

static int take_renewal(struct arbiter *arbiter, const struct arbiter_event *event)
{
    const struct arbiter_action grant = {.type = ARBITER_ACTION_GRANT,
                                         .node = event->node,
                                         .epoch = event->epoch,
                                         .asked_us = event->asked_us};

    if (!speaks_of_now(arbiter, event))
        return 0;
    arbiter->nodes[event->node].granted_us = event->now_us;
    arbiter->emit(arbiter->context, &grant);
    return 0;
}

static int take_trouble(struct arbiter *arbiter, const struct arbiter_event *event)
{
    if (speaks_of_now(arbiter, event))
        inquire(arbiter, event->now_us);
    return 0;
}

/* What the node said may not be true any more. */
static int take_lost_link(struct arbiter *arbiter, const struct arbiter_event *event)
{
    arbiter->nodes[event->node].has_answered = false;
    if (!arbiter->is_inquiring && arbiter->record && event->epoch >= arbiter->record->epoch &&
        epoch_start_index(arbiter->record, event->node) != EPOCH_NOBODY)
        inquire(arbiter, event->now_us);
    return 0;
}

static int take_tick(struct arbiter *arbiter, const struct arbiter_event *event)
{
    if (event->now_us < arbiter_wake_us(arbiter))
        return 0;
    if (!arbiter->is_inquiring) {
        inquire(arbiter, event->now_us); /* a lease has lapsed */
        return 0;
    }
    if (decide(arbiter, event->now_us) < 0) {
        int code = errno;

        ask(arbiter, event->now_us);
        errno = code;
        return -1;
    }
    if (arbiter->is_inquiring)
        ask(arbiter, event->now_us);
    return 0;
}

/* Ranks of a first launch: nobody knew how many there would be. */
static int take_placement(struct arbiter *arbiter, const struct arbiter_event *event)
{
    struct epoch_start *start;

    if (!arbiter->record || event->epoch != arbiter->record->epoch || arbiter->record->rank_count > 0)
        return 0;
    start = epoch_start_create(arbiter->record->member_count, event->rank_count);
    if (!start)
        return -1;
    start->epoch = arbiter->record->epoch;
    start->line = arbiter->record->line;
    start->last_line = arbiter->record->last_line;
    start->coordinator = arbiter->record->coordinator;
    memcpy(start->members, arbiter->record->members, start->member_count * sizeof(*start->members));
    memcpy(start->incarnations, arbiter->record->incarnations,
           start->member_count * sizeof(*start->incarnations));
    for (uint32_t rank = 0; rank < event->rank_count; rank++) {
        start->placement[rank] = start->holder[rank] = event->placement[rank];
        if (event->placement[rank] >= start->member_count) {
            free(start);
            errno = EINVAL;
            return -1;
        }
    }
    return record(arbiter, start);
}

/* Its lease does not matter any more: its ranks are gone. */
static int take_end_of_node(struct arbiter *arbiter, const struct arbiter_event *event)
{
    struct node *node = &arbiter->nodes[event->node];
    bool is_member = arbiter->record && epoch_start_index(arbiter->record, event->node) != EPOCH_NOBODY;

    node->is_gone = true;
    node->has_answered = false;
    if (arbiter->is_inquiring)
        return decide(arbiter, event->now_us);
    if (is_member)
        inquire(arbiter, event->now_us);
    return 0;
}

/* From now on no lease is granted. */
static void inquire(struct arbiter *arbiter, uint64_t now_us)
{
    arbiter->is_inquiring = true;
    arbiter->want = ARBITER_WANT_ANSWERS;
    arbiter->inquiry_us = now_us;
    for (uint32_t i = 0; i < arbiter->settings.node_count; i++)
        arbiter->nodes[i].has_answered = false;
    ask(arbiter, now_us);
}

/* All of them again if what they have said is not enough: a node has room later, or its memory comes back. */
static void ask(struct arbiter *arbiter, uint64_t now_us)
{
    struct arbiter_action action = {.type = ARBITER_ACTION_ASK, .epoch = next_epoch(arbiter)};

    arbiter->asked_us = now_us;
    for (uint32_t i = 0; i < arbiter->settings.node_count; i++) {
        action.node = i;
        if (arbiter->nodes[i].is_gone)
            continue;
        if (!arbiter->nodes[i].has_answered || arbiter->want > ARBITER_WANT_ANSWERS)
            arbiter->emit(arbiter->context, &action);
    }
}

/* Open the next epoch if enough is known, or keep what is wanted. */
static int decide(struct arbiter *arbiter, uint64_t now_us)
{
    uint64_t line = 0;

    if (!is_time_to_decide(arbiter, now_us)) {
        arbiter->want = ARBITER_WANT_ANSWERS;
        return 0;
    }
    arbiter->want = choose_line(arbiter, &line);
    if (arbiter->want == ARBITER_WANT_NOTHING && count_members(arbiter) < arbiter->settings.min_members)
        arbiter->want = ARBITER_WANT_NODES;
    if (arbiter->want != ARBITER_WANT_NOTHING)
        return 0;
    return open_epoch(arbiter, line, now_us);
}

/* A node that has answered has stopped its ranks; one that has not stops them when its lease ends. */
static bool is_time_to_decide(const struct arbiter *arbiter, uint64_t now_us)
{
    const struct arbiter_settings *settings = &arbiter->settings;
    uint32_t answers = count_answers(arbiter);

    if (answers == 0)
        return false;
    if (answers == count_expected(arbiter))
        return true;
    for (uint32_t i = 0; i < member_count(arbiter); i++) {
        const struct node *node = member(arbiter, i);

        if (!node->has_answered && !node->is_gone &&
            (settings->lease_us == 0 || now_us < node->granted_us + settings->lease_us))
            return false;
    }
    return now_us >= arbiter->inquiry_us + settings->collect_us;
}

/*
 * The line to go on from. A line that any survivor has committed is committed. One that all survivors have
 * protected may have been: it is rolled forward to, unless what is missing proves that a lost member had
 * not protected it.
 */
static enum arbiter_want choose_line(const struct arbiter *arbiter, uint64_t *line)
{
    uint64_t committed = arbiter->record ? arbiter->record->line : 0, candidate;
    uint32_t survivors = 0;

    for (uint32_t i = 0; i < member_count(arbiter); i++) {
        if (!is_survivor(arbiter, i))
            continue;
        survivors++;
        if (member(arbiter, i)->state.committed_line > committed)
            committed = member(arbiter, i)->state.committed_line;
    }
    if (arbiter->record && survivors == 0)
        return ARBITER_WANT_SURVIVOR;
    candidate = candidate_of(arbiter, committed);
    *line = candidate > committed ? candidate : committed;
    return *line == 0 || is_held(arbiter, *line) ? ARBITER_WANT_NOTHING : ARBITER_WANT_DATA;
}

/* The newest line that any survivor has protected, if all have and nothing speaks against it; else 0. */
static uint64_t candidate_of(const struct arbiter *arbiter, uint64_t committed)
{
    uint64_t candidate = 0;

    for (uint32_t i = 0; i < member_count(arbiter); i++) {
        const struct node *node = member(arbiter, i);

        if (is_survivor(arbiter, i) && node->state.protected_line > candidate &&
            has_protected(arbiter, node, node->state.protected_line))
            candidate = node->state.protected_line;
    }
    for (uint32_t i = 0; i < member_count(arbiter); i++)
        if (is_survivor(arbiter, i) && !has_protected(arbiter, member(arbiter, i), candidate))
            return 0;
    return candidate > committed && !is_disproved(arbiter, candidate) ? candidate : 0;
}

static bool has_protected(const struct arbiter *arbiter, const struct node *node, uint64_t line)
{
    return node->state.protected_epoch == arbiter->record->epoch && node->state.protected_line == line;
}

/* A rank's data are not where they would be, at a partner that survives, if its home had protected them. */
static bool is_disproved(const struct arbiter *arbiter, uint64_t line)
{
    const struct epoch_start *last = arbiter->record;

    for (uint32_t rank = 0; rank < last->rank_count; rank++) {
        uint32_t partner =
            scheme_partner(arbiter->settings.scheme, last->placement[rank], last->member_count);

        if (partner != EPOCH_NOBODY && is_survivor(arbiter, partner) && !is_held_of(arbiter, line, rank))
            return true;
    }
    return false;
}

/* A member of the last epoch that answers and has kept its memory since that epoch was opened. */
static bool is_survivor(const struct arbiter *arbiter, uint32_t index)
{
    const struct node *node = member(arbiter, index);

    return node->has_answered && node->state.incarnation == arbiter->record->incarnations[index];
}

/* The redundancy scheme's question: does somebody who answers hold each rank's data? */
static bool is_held(const struct arbiter *arbiter, uint64_t line)
{
    for (uint32_t rank = 0; rank < rank_count(arbiter); rank++)
        if (!is_held_of(arbiter, line, rank))
            return false;
    return true;
}

static bool is_held_of(const struct arbiter *arbiter, uint64_t line, uint32_t rank)
{
    for (uint32_t i = 0; i < arbiter->settings.node_count; i++)
        if (holds(&arbiter->nodes[i], line, rank))
            return true;
    return false;
}

static bool holds(const struct node *node, uint64_t line, uint32_t rank)
{
    return node->has_answered && rank < node->state.held_count && holding_has(&node->held[rank], line);
}

/* The decision is durable before anybody hears of it. */
static int open_epoch(struct arbiter *arbiter, uint64_t line, uint64_t now_us)
{
    struct epoch_start *start;

    list_members(arbiter, line);
    start = make_start(arbiter, line);
    if (!start)
        return -1;
    if (place_ranks(arbiter, start) < 0) {
        int code = errno;

        free(start);
        if (code == ENOSPC)
            arbiter->want = ARBITER_WANT_ROOM;
        errno = code;
        return code == ENOSPC ? 0 : -1;
    }
    if (record(arbiter, start) < 0)
        return -1;
    arbiter->is_inquiring = false;
    for (uint32_t i = 0; i < start->member_count; i++)
        member(arbiter, i)->granted_us = now_us;
    tell(arbiter);
    return 0;
}

/* All but the places of its ranks. */
static struct epoch_start *make_start(const struct arbiter *arbiter, uint64_t line)
{
    uint32_t ranks = line ? rank_count(arbiter) : arbiter->settings.rank_count;
    struct epoch_start *start = epoch_start_create(arbiter->listed_count, ranks);

    if (!start)
        return NULL;
    start->epoch = next_epoch(arbiter);
    start->line = line;
    start->last_line = arbiter->settings.past_line;
    if (arbiter->record && arbiter->record->last_line > start->last_line)
        start->last_line = arbiter->record->last_line;
    for (uint32_t i = 0; i < arbiter->settings.node_count; i++)
        if (arbiter->nodes[i].has_answered && arbiter->nodes[i].state.last_line > start->last_line)
            start->last_line = arbiter->nodes[i].state.last_line;
    for (uint32_t i = 0; i < start->member_count; i++) {
        start->members[i] = arbiter->listed[i];
        start->incarnations[i] = arbiter->nodes[arbiter->listed[i]].state.incarnation;
    }
    start->coordinator = choose(arbiter, start->epoch, 1, start->member_count);
    return start;
}

/*
 * Members keep their order, so that most of them keep their partners, too. A node that takes the place of a
 * lost one has the same neighbours. Whoever alone has an image is a member in any case.
 */
static void list_members(struct arbiter *arbiter, uint64_t line)
{
    uint32_t most = count_members(arbiter);

    arbiter->listed_count = 0;
    for (uint32_t i = 0; i < arbiter->settings.node_count; i++)
        arbiter->nodes[i].is_listed = false;
    for (uint32_t i = 0; i < member_count(arbiter) && arbiter->listed_count < most; i++) {
        uint32_t node = arbiter->record->members[i];

        list_member(arbiter, arbiter->nodes[node].has_answered ? node : find_newcomer(arbiter, node), i);
    }
    while (arbiter->listed_count < most)
        list_member(arbiter, find_newcomer(arbiter, EPOCH_NOBODY), EPOCH_NOBODY);
    for (uint32_t rank = 0; line > 0 && rank < rank_count(arbiter); rank++)
        list_member(arbiter, find_only_holder(arbiter, line, rank), EPOCH_NOBODY);
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
        if (!holds(&arbiter->nodes[node], line, rank))
            continue;
        if (arbiter->nodes[node].is_listed)
            return EPOCH_NOBODY;
        found = node;
    }
    return found;
}

/*
 * The first node that answers, is not listed, and has no place from the last epoch; of the failure domain of
 * the node whose place it takes, if there is one. EPOCH_NOBODY: none.
 */
static uint32_t find_newcomer(const struct arbiter *arbiter, uint32_t lost)
{
    uint32_t found = EPOCH_NOBODY;

    for (uint32_t node = 0; node < arbiter->settings.node_count; node++) {
        bool was_member = arbiter->record && epoch_start_index(arbiter->record, node) != EPOCH_NOBODY;

        if (!arbiter->nodes[node].has_answered || arbiter->nodes[node].is_listed || was_member)
            continue;
        if (lost == EPOCH_NOBODY || !arbiter->domains || arbiter->domains[node] == arbiter->domains[lost])
            return node;
        if (found == EPOCH_NOBODY)
            found = node;
    }
    return found;
}

/* Returns 0 or -1 with errno: ENOSPC (without room), ENOMEM. */
static int place_ranks(struct arbiter *arbiter, struct epoch_start *start)
{
    struct spread_member *members = calloc(start->member_count, sizeof(*members));
    const struct spread_facts facts = {.last = arbiter->record,
                                       .members = members,
                                       .scheme = arbiter->settings.scheme,
                                       .first = choose(arbiter, start->epoch, 2, start->member_count)};
    int rc, code;

    if (!members)
        return -1;
    for (uint32_t i = 0; i < start->member_count; i++) {
        const struct node *node = &arbiter->nodes[start->members[i]];

        members[i] = (struct spread_member){.room = node->state.room,
                                            .held_count = node->state.held_count,
                                            .held = node->held,
                                            .former = node->former};
    }
    rc = spread_ranks(start, &facts);
    code = errno;
    free(members);
    errno = code;
    return rc;
}

/* Takes start over. */
static int record(struct arbiter *arbiter, struct epoch_start *start)
{
    const struct arbiter_action action = {
        .type = ARBITER_ACTION_RECORD, .epoch = start->epoch, .start = start};

    if (arbiter->emit(arbiter->context, &action) < 0) {
        int code = errno;

        free(start);
        errno = code;
        return -1;
    }
    free(arbiter->record);
    arbiter->record = start;
    return 0;
}

static void tell(struct arbiter *arbiter)
{
    struct arbiter_action action = {
        .type = ARBITER_ACTION_START, .epoch = arbiter->record->epoch, .start = arbiter->record};

    for (uint32_t i = 0; i < member_count(arbiter); i++) {
        action.node = arbiter->record->members[i];
        arbiter->emit(arbiter->context, &action);
    }
}

/* One of count, which is as good as the others: another one in other jobs and other epochs. */
static uint32_t choose(const struct arbiter *arbiter, uint32_t epoch, uint32_t what, uint32_t count)
{
    uint64_t mixed = (arbiter->settings.salt + epoch) * 0x9e3779b97f4a7c15u + what * 0xbf58476d1ce4e5b9u;

    return (uint32_t)((mixed >> 32) % count);
}

static uint32_t next_epoch(const struct arbiter *arbiter)
{
    uint32_t recorded = arbiter->record ? arbiter->record->epoch : 0, past = arbiter->settings.past_epoch;

    return (recorded > past ? recorded : past) + 1;
}

/* Of a line once they are known; a program that begins anew may begin with others. */
static uint32_t rank_count(const struct arbiter *arbiter)
{
    uint32_t known = arbiter->record ? arbiter->record->rank_count : 0;

    return known ? known : arbiter->settings.rank_count;
}

static uint32_t member_count(const struct arbiter *arbiter)
{
    return arbiter->record ? arbiter->record->member_count : 0;
}

/* Of the newest epoch. */
static struct node *member(const struct arbiter *arbiter, uint32_t index)
{
    return &arbiter->nodes[arbiter->record->members[index]];
}

static uint32_t count_answers(const struct arbiter *arbiter)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < arbiter->settings.node_count; i++)
        count += arbiter->nodes[i].has_answered;
    return count;
}

/* Nodes that may still answer. */
static uint32_t count_expected(const struct arbiter *arbiter)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < arbiter->settings.node_count; i++)
        count += !arbiter->nodes[i].is_gone;
    return count;
}

/* Of the epoch that is opened. */
static uint32_t count_members(const struct arbiter *arbiter)
{
    uint32_t answers = count_answers(arbiter), most = arbiter->settings.max_members;

    return most > 0 && most < answers ? most : answers;
}
