#include "coord/member.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coord/member_state.h"

static int begin(struct member *member);
static int take_tick(struct member *member, uint64_t now_us);
static int take_inquiry(struct member *member, const struct member_event *event);
static int take_start(struct member *member, const struct member_event *event);
static int take_placement(struct member *member, const struct member_event *event);
static int take_grant(struct member *member, const struct member_event *event);
static int take_fetch(struct member *member, const struct member_event *event);
static int take_image(struct member *member, const struct member_event *event);
static int take_loss(struct member *member, const struct member_event *event);
static bool is_ours(const struct member *member, const struct epoch_start *start);
static int enter(struct member *member, const struct epoch_start *start);
static int keep_start(struct member *member, const struct epoch_start *start);
static void note_missing(struct member *member, const struct member_event *event);
static bool is_here(const struct member_event *event, const struct epoch_start *start, uint32_t rank);
static void leave(struct member *member);
static void release_epoch(struct member *member);
static void repeat(struct member *member, uint64_t now_us);
static void ask_images(struct member *member);
static void launch_if_ready(struct member *member);

struct member *member_create(const struct member_settings *settings, const struct member_record *record,
                             member_action_f emit, void *context)
{
    struct member *member = calloc(1, sizeof(*member));

    if (!member)
        return NULL;
    member->settings = *settings;
    member->record = *record;
    member->emit = emit;
    member->context = context;
    member->partner = EPOCH_NOBODY;
    return member;
}

void member_destroy(struct member *member)
{
    int saved_errno = errno;

    if (!member)
        return;
    release_epoch(member);
    free(member);
    errno = saved_errno;
}

int member_step(struct member *member, const struct member_event *event)
{
    switch (event->type) {
    case MEMBER_EVENT_BEGIN:
        return begin(member);
    case MEMBER_EVENT_INQUIRE:
        return take_inquiry(member, event);
    case MEMBER_EVENT_START:
        return take_start(member, event);
    case MEMBER_EVENT_NONE:
        errno = EINVAL;
        return -1;
    default:
        break;
    }
    if (!member->is_serving)
        return 0;
    switch (event->type) {
    case MEMBER_EVENT_TICK:
        return take_tick(member, event->now_us);
    case MEMBER_EVENT_PLACED:
        return take_placement(member, event);
    case MEMBER_EVENT_LINK_LOST:
    case MEMBER_EVENT_RANK_LOST:
        return take_loss(member, event);
    case MEMBER_EVENT_CAPTURED:
    case MEMBER_EVENT_APPLIED:
        return member_line_take(member, event);
    default:
        break;
    }
    if (event->epoch != member->start->epoch)
        return 0;
    switch (event->type) {
    case MEMBER_EVENT_GRANT:
        return take_grant(member, event);
    case MEMBER_EVENT_FETCH:
        return take_fetch(member, event);
    case MEMBER_EVENT_IMAGE:
        return take_image(member, event);
    case MEMBER_EVENT_ORDER:
    case MEMBER_EVENT_DATA:
    case MEMBER_EVENT_HELD:
    case MEMBER_EVENT_NEED_BASE:
        return member_line_take(member, event);
    default:
        errno = EINVAL;
        return -1;
    }
}

uint64_t member_wake_us(const struct member *member)
{
    uint64_t stop_us = UINT64_MAX;

    if (!member->is_serving)
        return UINT64_MAX;
    if (member->settings.lease_us > 0 && member->has_lease)
        stop_us = member->lease_end_us - member->settings.guard_us;
    return member->repeat_us < stop_us ? member->repeat_us : stop_us;
}

const struct member_record *member_record(const struct member *member)
{
    return &member->record;
}

uint32_t member_epoch(const struct member *member)
{
    return member->is_serving ? member->start->epoch : 0;
}

uint32_t member_missing(const struct member *member)
{
    return member->is_serving ? member->missing_count : 0;
}

uint64_t member_line(const struct member *member)
{
    return member->line;
}

/* What an earlier life has left running belongs to an epoch in which this one has no part. */
static int begin(struct member *member)
{
    member_act(member, (struct member_action){.type = MEMBER_ACTION_STOP});
    if (member->record.committed_line > 0)
        member_act(member, (struct member_action){.type = MEMBER_ACTION_APPLY,
                                                  .line = member->record.committed_line});
    return 0;
}

static int take_tick(struct member *member, uint64_t now_us)
{
    bool has_end = member->settings.lease_us > 0 && member->has_lease;

    if (has_end && now_us + member->settings.guard_us >= member->lease_end_us)
        leave(member);
    else if (now_us >= member->repeat_us)
        repeat(member, now_us);
    return 0;
}

/* The promise: the ranks are stopped, it is recorded, and only then given. */
static int take_inquiry(struct member *member, const struct member_event *event)
{
    struct member_record record = member->record;
    struct epoch_state state = {.room = event->room,
                                .processor = event->processor,
                                .memory = event->memory,
                                .held_count = event->held_count,
                                .held = event->held};

    if (event->epoch < record.promised || record.entered >= event->epoch)
        return 0;
    leave(member);
    record.promised = event->epoch;
    if (record.promised != member->record.promised && member_keep(member, record) < 0)
        return -1;
    state.incarnation = record.incarnation;
    state.last_line = record.last_line;
    state.committed_line = record.committed_line;
    state.protected_line = record.protected_line;
    state.protected_epoch = record.protected_epoch;
    state.entered_epoch = record.entered;
    member_act(member,
               (struct member_action){.type = MEMBER_ACTION_ANSWER, .epoch = event->epoch, .state = &state});
    return 0;
}

/* It may be doubled, or meant for an earlier life of this node. */
static int take_start(struct member *member, const struct member_event *event)
{
    const struct epoch_start *start = event->start;
    struct member_record record = member->record;

    if (!epoch_start_is_valid(start)) {
        errno = EINVAL;
        return -1;
    }
    if (record.promised != start->epoch || record.entered >= start->epoch || !is_ours(member, start))
        return 0;
    leave(member);
    if (enter(member, start) < 0)
        return -1;
    record.entered = start->epoch;
    if (start->line > record.committed_line)
        record.committed_line = start->line;
    if (member_keep(member, record) < 0)
        return -1;
    member->is_serving = true;
    member->repeat_us = event->now_us;
    member_act(member,
               (struct member_action){.type = MEMBER_ACTION_ENTER, .epoch = start->epoch, .start = start});
    member_act(member, (struct member_action){.type = MEMBER_ACTION_SETTLE, .line = start->line});
    if (start->coordinator == member->index)
        member_act(member, (struct member_action){
                               .type = MEMBER_ACTION_COORDINATE, .epoch = start->epoch, .start = start});
    note_missing(member, event);
    repeat(member, event->now_us);
    launch_if_ready(member);
    return 0;
}

/* Ranks of a first launch: nobody knew how many there would be, or where. */
static int take_placement(struct member *member, const struct member_event *event)
{
    const struct epoch_start *start = event->start;

    if (!epoch_start_is_valid(start)) {
        errno = EINVAL;
        return -1;
    }
    if (start->epoch != member->start->epoch || member->start->rank_count > 0 || member->line != 0)
        return 0;
    return keep_start(member, start);
}

/* A lease counts from when we asked for it, so that the arbiter never believes it to be over too early. */
static int take_grant(struct member *member, const struct member_event *event)
{
    uint64_t end_us = event->asked_us + member->settings.lease_us;

    if (event->asked_us > event->now_us || event->now_us + member->settings.guard_us >= end_us)
        return 0;
    if (end_us > member->lease_end_us) {
        member->lease_end_us = end_us;
        member_act(member, (struct member_action){.type = MEMBER_ACTION_FENCE,
                                                  .until_us = end_us - member->settings.guard_us});
    }
    member->has_lease = true;
    launch_if_ready(member);
    return 0;
}

static int take_fetch(struct member *member, const struct member_event *event)
{
    if (event->rank >= member->start->rank_count) {
        errno = EINVAL;
        return -1;
    }
    if (event->image_line != event->line)
        member_call_trouble(member);
    else
        member_act(member, (struct member_action){.type = MEMBER_ACTION_SEND_IMAGE,
                                                  .epoch = event->epoch,
                                                  .peer = event->peer,
                                                  .rank = event->rank,
                                                  .line = event->line});
    return 0;
}

static int take_image(struct member *member, const struct member_event *event)
{
    if (event->rank >= member->start->rank_count || event->line != member->start->line ||
        !member->is_missing[event->rank])
        return 0;
    member->is_missing[event->rank] = false;
    member->missing_count--;
    launch_if_ready(member);
    return 0;
}

/* A link that is gone stays gone for the epoch; one of an earlier epoch, or to no member, is no news. */
static int take_loss(struct member *member, const struct member_event *event)
{
    if (event->epoch < member->start->epoch)
        return 0;
    if (event->type == MEMBER_EVENT_LINK_LOST &&
        epoch_start_index(member->start, event->peer) == EPOCH_NOBODY)
        return 0;
    member_call_trouble(member);
    member_act(member, (struct member_action){.type = MEMBER_ACTION_SAY, .word = COORD_EVENT_LOST});
    return 0;
}

/* Addressed to this node with the memory that it has now. */
static bool is_ours(const struct member *member, const struct epoch_start *start)
{
    uint32_t index = epoch_start_index(start, member->settings.node);

    return index != EPOCH_NOBODY && start->incarnations[index] == member->record.incarnation;
}

/* All but serving. */
static int enter(struct member *member, const struct epoch_start *start)
{
    uint32_t partner;

    if (keep_start(member, start) < 0)
        return -1;
    member->missing_count = member->awaited_count = 0;
    member->index = epoch_start_index(start, member->settings.node);
    partner = scheme_partner(member->settings.scheme, member->index, start->member_count);
    member->partner = partner == EPOCH_NOBODY ? EPOCH_NOBODY : start->members[partner];
    member->has_lease = member->settings.lease_us == 0;
    member->lease_end_us = 0;
    member->is_launched = member->has_lines = member->is_in_trouble = false;
    return 0;
}

static int keep_start(struct member *member, const struct epoch_start *start)
{
    struct epoch_start *copy = epoch_start_copy(start);
    bool *is_missing = calloc(start->rank_count + 1, sizeof(*is_missing));
    bool *is_awaited = calloc(start->rank_count + 1, sizeof(*is_awaited));

    if (!copy || !is_missing || !is_awaited) {
        free(copy);
        free(is_missing);
        free(is_awaited);
        errno = ENOMEM;
        return -1;
    }
    release_epoch(member);
    member->start = copy;
    member->is_missing = is_missing;
    member->is_awaited = is_awaited;
    return 0;
}

/* Our ranks whose image another member has, or whose image here is another one than that of the decision. */
static void note_missing(struct member *member, const struct member_event *event)
{
    const struct epoch_start *start = member->start;

    for (uint32_t rank = 0; start->line > 0 && rank < start->rank_count; rank++) {
        if (!member_is_local(member, rank) || is_here(event, start, rank))
            continue;
        member->is_missing[rank] = true;
        member->missing_count++;
    }
}

static bool is_here(const struct member_event *event, const struct epoch_start *start, uint32_t rank)
{
    const struct epoch_state held = {
        .held_count = event->held_count, .held = event->held, .roots = event->roots};
    const struct digest *root = epoch_state_root(&held, start->line, rank), *wanted = &start->roots[rank];

    if (rank >= event->held_count || !holding_has(&event->held[rank], start->line))
        return false;
    return !root || !digest_is_known(wanted) || digest_is_equal(root, wanted);
}

/* The node runs no ranks and serves nobody from now on. What is protected stays protected. */
static void leave(struct member *member)
{
    member->is_serving = false;
    member->line = 0;
    member_act(member, (struct member_action){.type = MEMBER_ACTION_STOP});
}

static void release_epoch(struct member *member)
{
    free(member->start);
    free(member->is_missing);
    free(member->is_awaited);
}

static void repeat(struct member *member, uint64_t now_us)
{
    member->repeat_us = now_us + member->settings.repeat_us;
    if (member->settings.lease_us > 0)
        member_act(member, (struct member_action){.type = MEMBER_ACTION_RENEW, .asked_us = now_us});
    if (member->is_in_trouble)
        member_act(member, (struct member_action){.type = MEMBER_ACTION_TROUBLE});
    if (!member->is_launched)
        ask_images(member);
    else if (!member->has_lines)
        member_act(member, (struct member_action){.type = MEMBER_ACTION_READY});
}

static void ask_images(struct member *member)
{
    const struct epoch_start *start = member->start;

    for (uint32_t rank = 0; member->missing_count > 0 && rank < start->rank_count; rank++) {
        if (!member->is_missing[rank])
            continue;
        if (start->holder[rank] != member->index || epoch_start_rebuild(start, rank))
            member_act(member, (struct member_action){.type = MEMBER_ACTION_FETCH,
                                                      .peer = start->members[start->holder[rank]],
                                                      .rank = rank,
                                                      .line = start->line});
        else if (!member->is_in_trouble)
            member_call_trouble(member);
    }
}

static void launch_if_ready(struct member *member)
{
    if (member->is_launched || !member->has_lease || member->missing_count > 0)
        return;
    member->is_launched = true;
    member_act(member, (struct member_action){.type = MEMBER_ACTION_LAUNCH, .line = member->start->line});
    member_act(member, (struct member_action){.type = MEMBER_ACTION_READY});
}

void member_call_trouble(struct member *member)
{
    member->is_in_trouble = true;
    member_act(member, (struct member_action){.type = MEMBER_ACTION_TROUBLE});
}

/* What is not recorded has not happened. */
int member_keep(struct member *member, struct member_record record)
{
    if (member_act(member, (struct member_action){.type = MEMBER_ACTION_RECORD, .record = &record}) < 0)
        return -1;
    member->record = record;
    return 0;
}

bool member_is_local(const struct member *member, uint32_t rank)
{
    return member->start->placement[rank] == member->index;
}

/* What an action says of the epoch and the line in progress is the same for all. */
int member_act(struct member *member, struct member_action action)
{
    if (action.epoch == 0 && member->start)
        action.epoch = member->start->epoch;
    if (action.line == 0)
        action.line = member->line;
    return member->emit(member->context, &action);
}
