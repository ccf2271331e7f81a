#include "coord/arbiter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coord/arbiter_state.h"
#include "coord/spread.h"

static int copy_domains(struct arbiter *arbiter);
static int copy_placed(struct arbiter *arbiter);
static int take_state(struct arbiter *arbiter, const struct arbiter_event *event);
static void set_answered(struct arbiter *arbiter, struct node *node, bool has_answered);
static int take_renewal(struct arbiter *arbiter, const struct arbiter_event *event);
static int take_trouble(struct arbiter *arbiter, const struct arbiter_event *event);
static int take_lost_link(struct arbiter *arbiter, const struct arbiter_event *event);
static int take_tick(struct arbiter *arbiter, const struct arbiter_event *event);
static int take_placement(struct arbiter *arbiter, const struct arbiter_event *event);
static int take_end_of_node(struct arbiter *arbiter, const struct arbiter_event *event);
static void begin(struct arbiter *arbiter, uint64_t now_us);
static void inquire(struct arbiter *arbiter, uint64_t now_us);
static void ask(struct arbiter *arbiter, uint64_t now_us);
static int decide(struct arbiter *arbiter, uint64_t now_us);
static int check_images(struct arbiter *arbiter, uint64_t line);
static bool is_time_to_decide(const struct arbiter *arbiter, uint64_t now_us);
static int open_epoch(struct arbiter *arbiter, uint64_t line, uint64_t now_us);
static struct epoch_start *make_start(const struct arbiter *arbiter, uint64_t line);
static int place_ranks(struct arbiter *arbiter, struct epoch_start *start);
static int record(struct arbiter *arbiter, struct epoch_start *start);
static void note_members(struct arbiter *arbiter);
static void tell(struct arbiter *arbiter);
static uint32_t choose(const struct arbiter *arbiter, uint32_t epoch, uint32_t what, uint32_t count);
static uint32_t next_epoch(const struct arbiter *arbiter);
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
        (settings->domains && copy_domains(arbiter) < 0) || (settings->placed && copy_placed(arbiter) < 0)) {
        arbiter_destroy(arbiter);
        errno = ENOMEM;
        return NULL;
    }
    note_members(arbiter);
    arbiter->has_grants = settings->granted_us;
    for (uint32_t i = 0; settings->granted_us && i < settings->node_count; i++)
        arbiter->nodes[i].granted_us = settings->granted_us[i];
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

static int copy_placed(struct arbiter *arbiter)
{
    size_t count = arbiter->settings.placed_count;

    arbiter->placed = calloc(count + 1, sizeof(*arbiter->placed));
    if (!arbiter->placed)
        return -1;
    memcpy(arbiter->placed, arbiter->settings.placed, count * sizeof(*arbiter->placed));
    return 0;
}

void arbiter_destroy(struct arbiter *arbiter)
{
    int saved_errno = errno;

    if (!arbiter)
        return;
    for (uint32_t i = 0; arbiter->nodes && i < arbiter->settings.node_count; i++)
        free(arbiter->nodes[i].state);
    free(arbiter->told_first);
    free(arbiter->told);
    free(arbiter->refusals);
    free(arbiter->nodes);
    free(arbiter->listed);
    free(arbiter->domains);
    free(arbiter->room);
    free(arbiter->placed);
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
        begin(arbiter, event->now_us);
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
    case ARBITER_EVENT_SILENT:
        return take_end_of_node(arbiter, event);
    case ARBITER_EVENT_BACK:
        arbiter->gone_count -= arbiter->nodes[event->node].is_gone;
        arbiter->nodes[event->node].is_gone = false; /* the ranks that it had may still run */
        return 0;
    default:
        errno = EINVAL;
        return -1;
    }
}

uint64_t arbiter_wake_us(const struct arbiter *arbiter)
{
    uint64_t wake_us = arbiter->asked_us + arbiter->settings.repeat_us;
    uint64_t silent_us = arbiter_lapse_us(arbiter);

    if (arbiter->is_inquiring)
        return silent_us > arbiter->asked_us && silent_us < wake_us ? silent_us : wake_us;
    wake_us = UINT64_MAX;
    if (arbiter->settings.lease_us == 0)
        return UINT64_MAX;
    for (uint32_t i = 0; i < arbiter_member_count(arbiter); i++) {
        uint64_t lapse_us = arbiter_member(arbiter, i)->granted_us + arbiter->settings.lease_us + 1;

        wake_us = lapse_us < wake_us ? lapse_us : wake_us;
    }
    return wake_us;
}

uint64_t arbiter_lapse_us(const struct arbiter *arbiter)
{
    uint64_t last_us = 0;

    for (uint32_t i = 0; arbiter->silent_count > 0 && i < arbiter_member_count(arbiter); i++) {
        const struct node *node = arbiter_member(arbiter, i);
        uint64_t lapse_us = node->granted_us + arbiter->settings.lease_us;

        if (node->is_silent && lapse_us > last_us)
            last_us = lapse_us;
    }
    return last_us;
}

uint64_t arbiter_granted_us(const struct arbiter *arbiter, uint32_t node)
{
    return arbiter->nodes[node].granted_us;
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

const struct spread_lack *arbiter_lack(const struct arbiter *arbiter)
{
    return &arbiter->lack;
}

uint32_t arbiter_refusals(const struct arbiter *arbiter, const struct arbiter_refusal **refusals)
{
    *refusals = arbiter->refusals;
    return arbiter->refusal_count;
}

bool arbiter_is_stuck(const struct arbiter *arbiter)
{
    bool is_wanting = arbiter->want == ARBITER_WANT_SURVIVOR || arbiter->want == ARBITER_WANT_DATA ||
                      arbiter->want == ARBITER_WANT_NODES || arbiter->want == ARBITER_WANT_PROCESSORS ||
                      arbiter->want == ARBITER_WANT_ROOTS;

    return is_wanting && arbiter->answer_count == count_expected(arbiter);
}

static int take_state(struct arbiter *arbiter, const struct arbiter_event *event)
{
    struct node *node = &arbiter->nodes[event->node];
    struct epoch_state *copy;

    if (!arbiter->is_inquiring || node->is_gone || event->epoch != next_epoch(arbiter))
        return 0;
    copy = epoch_state_copy(&event->state);
    if (!copy)
        return -1;
    free(node->state);
    node->state = copy;
    set_answered(arbiter, node, true);
    return decide(arbiter, event->now_us);
}

static void set_answered(struct arbiter *arbiter, struct node *node, bool has_answered)
{
    arbiter->answer_count = arbiter->answer_count + has_answered - node->has_answered;
    node->has_answered = has_answered;
}

static bool speaks_of_now(const struct arbiter *arbiter, const struct arbiter_event *event)
{
    uint32_t index = arbiter->nodes[event->node].index;

    return !arbiter->is_inquiring && index != EPOCH_NOBODY && event->epoch == arbiter->record->epoch &&
           event->incarnation == arbiter->record->incarnations[index];
}

static int take_renewal(struct arbiter *arbiter, const struct arbiter_event *event)
{
    const struct arbiter_action grant = {.type = ARBITER_ACTION_GRANT,
                                         .node = event->node,
                                         .epoch = event->epoch,
                                         .asked_us = event->asked_us};

    if (!speaks_of_now(arbiter, event) || arbiter->nodes[event->node].is_gone)
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
    set_answered(arbiter, &arbiter->nodes[event->node], false);
    if (!arbiter->is_inquiring && arbiter->record && event->epoch >= arbiter->record->epoch &&
        arbiter->nodes[event->node].index != EPOCH_NOBODY)
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
    start = epoch_start_resize(arbiter->record, event->rank_count);
    if (!start)
        return -1;
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

/* If its ranks are gone, its lease does not matter any more. */
static int take_end_of_node(struct arbiter *arbiter, const struct arbiter_event *event)
{
    struct node *node = &arbiter->nodes[event->node];
    bool is_silent = event->type == ARBITER_EVENT_SILENT && arbiter->settings.lease_us > 0;

    arbiter->gone_count += !node->is_gone;
    arbiter->silent_count = arbiter->silent_count + is_silent - node->is_silent;
    node->is_gone = true;
    node->is_silent = is_silent;
    set_answered(arbiter, node, false);
    if (arbiter->is_inquiring)
        return decide(arbiter, event->now_us);
    if (node->index != EPOCH_NOBODY)
        inquire(arbiter, event->now_us);
    return 0;
}

/* The first time, a predecessor may have given leases until now. */
static void begin(struct arbiter *arbiter, uint64_t now_us)
{
    for (uint32_t i = 0; !arbiter->has_grants && i < arbiter->settings.node_count; i++)
        arbiter->nodes[i].granted_us = now_us;
    arbiter->has_grants = true;
    inquire(arbiter, now_us);
}

/* From now on no lease is granted. */
static void inquire(struct arbiter *arbiter, uint64_t now_us)
{
    arbiter->is_inquiring = true;
    arbiter->want = ARBITER_WANT_ANSWERS;
    arbiter->inquiry_us = now_us;
    arbiter->refusal_count = 0;
    for (uint32_t i = 0; i < arbiter->settings.node_count; i++)
        set_answered(arbiter, &arbiter->nodes[i], false);
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
    if (arbiter_list_tellers(arbiter) < 0)
        return -1;
    arbiter->want = arbiter_choose_line(arbiter, &line);
    if (arbiter->want == ARBITER_WANT_NOTHING && line > 0 && check_images(arbiter, line) < 0)
        return -1;
    if (arbiter->want == ARBITER_WANT_NOTHING &&
        arbiter_count_members(arbiter) < arbiter->settings.min_members)
        arbiter->want = ARBITER_WANT_NODES;
    if (arbiter->want != ARBITER_WANT_NOTHING)
        return 0;
    return open_epoch(arbiter, line, now_us);
}

/* Returns -1 with ENOMEM. */
static int check_images(struct arbiter *arbiter, uint64_t line)
{
    if (arbiter_check_roots(arbiter, line) < 0) {
        arbiter->want = ARBITER_WANT_ROOTS;
        return errno == ENODATA ? 0 : -1;
    }
    if (!arbiter_is_held(arbiter, line))
        arbiter->want = ARBITER_WANT_DATA;
    return 0;
}

/* A node that has answered has stopped its ranks; one that has not stops them when its lease ends. */
static bool is_time_to_decide(const struct arbiter *arbiter, uint64_t now_us)
{
    const struct arbiter_settings *settings = &arbiter->settings;

    if (arbiter->answer_count == 0 || now_us < arbiter_lapse_us(arbiter))
        return false;
    if (arbiter->answer_count == count_expected(arbiter))
        return true;
    if (now_us < arbiter->inquiry_us + settings->collect_us)
        return false;
    for (uint32_t i = 0; i < arbiter_member_count(arbiter); i++) {
        const struct node *node = arbiter_member(arbiter, i);

        if (!node->has_answered && !node->is_gone &&
            (settings->lease_us == 0 || now_us < node->granted_us + settings->lease_us))
            return false;
    }
    return true;
}

/* The decision is durable before anybody hears of it. */
static int open_epoch(struct arbiter *arbiter, uint64_t line, uint64_t now_us)
{
    struct epoch_start *start;

    arbiter_list_members(arbiter, line);
    start = make_start(arbiter, line);
    if (!start)
        return -1;
    if (place_ranks(arbiter, start) < 0) {
        int code = errno;

        free(start);
        if (code == ENOSPC || code == EXDEV)
            arbiter->want = code == ENOSPC ? ARBITER_WANT_ROOM : ARBITER_WANT_PROCESSORS;
        errno = code;
        return code == ENOSPC || code == EXDEV ? 0 : -1;
    }
    if (arbiter_plan_rebuilds(arbiter, &start) < 0) {
        int code = errno;

        free(start);
        if (code == ENODATA)
            arbiter->want = ARBITER_WANT_DATA;
        errno = code;
        return code == ENODATA ? 0 : -1;
    }
    arbiter_fill_roots(arbiter, start);
    if (record(arbiter, start) < 0)
        return -1;
    arbiter->is_inquiring = false;
    for (uint32_t i = 0; i < arbiter->settings.node_count; i++)
        arbiter->nodes[i].is_silent = false; /* all leases of the former epoch are over */
    arbiter->silent_count = 0;
    for (uint32_t i = 0; i < start->member_count; i++)
        arbiter_member(arbiter, i)->granted_us = now_us;
    tell(arbiter);
    return 0;
}

/* All but the places of its ranks. */
static struct epoch_start *make_start(const struct arbiter *arbiter, uint64_t line)
{
    uint32_t ranks = line ? arbiter_rank_count(arbiter) : arbiter->settings.rank_count;
    struct epoch_start *start = epoch_start_create(arbiter->listed_count, ranks);

    if (!start)
        return NULL;
    start->epoch = next_epoch(arbiter);
    start->line = line;
    start->last_line = arbiter->settings.past_line;
    if (arbiter->record && arbiter->record->last_line > start->last_line)
        start->last_line = arbiter->record->last_line;
    for (uint32_t i = 0; i < arbiter->settings.node_count; i++)
        if (arbiter->nodes[i].has_answered && arbiter->nodes[i].state->last_line > start->last_line)
            start->last_line = arbiter->nodes[i].state->last_line;
    for (uint32_t i = 0; i < start->member_count; i++) {
        start->members[i] = arbiter->listed[i];
        start->incarnations[i] = arbiter->nodes[arbiter->listed[i]].state->incarnation;
        start->processors[i] = arbiter->nodes[arbiter->listed[i]].state->processor;
    }
    start->coordinator = choose(arbiter, start->epoch, 1, start->member_count);
    return start;
}

/* Returns 0 or -1 with errno, as spread_ranks(). */
static int place_ranks(struct arbiter *arbiter, struct epoch_start *start)
{
    struct spread_member *members = calloc(start->member_count, sizeof(*members));
    const struct spread_facts facts = {.last = arbiter->record,
                                       .members = members,
                                       .scheme = arbiter->settings.scheme,
                                       .code = arbiter->settings.code,
                                       .first = choose(arbiter, start->epoch, 2, start->member_count),
                                       .placed = start->line > 0 ? arbiter->placed : NULL,
                                       .placed_count = arbiter->settings.placed_count,
                                       .lack = &arbiter->lack};
    int rc, code;

    if (!members)
        return -1;
    for (uint32_t i = 0; i < start->member_count; i++) {
        const struct node *node = &arbiter->nodes[start->members[i]];

        members[i] = (struct spread_member){.room = node->state->room,
                                            .processor = node->state->processor,
                                            .memory = node->state->memory,
                                            .held_count = node->state->held_count,
                                            .ranks = node->state->ranks,
                                            .held = node->state->held,
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
    note_members(arbiter);
    return 0;
}

/* Of the newest epoch. */
static void note_members(struct arbiter *arbiter)
{
    for (uint32_t i = 0; i < arbiter->settings.node_count; i++)
        arbiter->nodes[i].index = EPOCH_NOBODY;
    for (uint32_t i = arbiter_member_count(arbiter); i-- > 0;)
        arbiter_member(arbiter, i)->index = i;
}

static void tell(struct arbiter *arbiter)
{
    struct arbiter_action action = {
        .type = ARBITER_ACTION_START, .epoch = arbiter->record->epoch, .start = arbiter->record};

    for (uint32_t i = 0; i < arbiter_member_count(arbiter); i++) {
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

/* Nodes that may still answer. */
static uint32_t count_expected(const struct arbiter *arbiter)
{
    return arbiter->settings.node_count - arbiter->gone_count;
}
