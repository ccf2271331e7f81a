/* member_line.c - a line, as a member sees it: the coordinator's orders, ranks that are staged, copies. */
#include "coord/member_state.h"

#include <errno.h>

static bool stop_awaiting(struct member *member, uint32_t rank);
static int capture(struct member *member);
static int commit(struct member *member);
static int give_up_line(struct member *member);
static int let_leave(struct member *member, uint64_t line);
static int prepare(struct member *member, uint64_t line);
static int protect(struct member *member);
static int say_protected(struct member *member);
static int take_applied(struct member *member, const struct member_event *event);
static int take_captured(struct member *member, const struct member_event *event);
static int take_data(struct member *member, const struct member_event *event);
static int take_held(struct member *member, const struct member_event *event);
static int take_lack(struct member *member, const struct member_event *event);
static void abort_line(struct member *member, bool is_refuted);
static void await_all(struct member *member);
static int take_order(struct member *member, const struct member_event *event);

int member_line_take(struct member *member, const struct member_event *event)
{
    switch (event->type) {
    case MEMBER_EVENT_ORDER:
        return take_order(member, event);
    case MEMBER_EVENT_CAPTURED:
        return take_captured(member, event);
    case MEMBER_EVENT_DATA:
        return take_data(member, event);
    case MEMBER_EVENT_HELD:
        return take_held(member, event);
    case MEMBER_EVENT_NEED_BASE:
        return take_lack(member, event);
    case MEMBER_EVENT_APPLIED:
        return take_applied(member, event);
    default:
        errno = EINVAL;
        return -1;
    }
}

/* Between STOP and the capture, before DRAIN or after it: the phase stays what it is. */
static int let_leave(struct member *member, uint64_t line)
{
    if (member->line != 0 && line == member->line &&
        (member->order == COORD_ACTION_STOP || member->order == COORD_ACTION_DRAIN))
        member_act(member, (struct member_action){.type = MEMBER_ACTION_OBEY, .order = COORD_ACTION_LEAVE});
    return 0;
}

/* The orders of a line come in their order; only targets may come several times. */
static int take_order(struct member *member, const struct member_event *event)
{
    enum coord_action_type order = event->order;
    bool is_again = order == COORD_ACTION_TARGETS && member->order == COORD_ACTION_TARGETS;

    if (order == COORD_ACTION_PREPARE)
        return prepare(member, event->line);
    if (order == COORD_ACTION_LEAVE)
        return let_leave(member, event->line);
    if (member->line == 0 || event->line != member->line || order > COORD_ACTION_ABORT ||
        (order <= member->order && !is_again))
        return 0;
    if (order == COORD_ACTION_ABORT) {
        if (member->order != COORD_ACTION_COMMIT)
            abort_line(member, event->is_refuted);
        return 0;
    }
    member->order = order;
    if (order == COORD_ACTION_CAPTURE)
        return capture(member);
    if (order == COORD_ACTION_PROTECT)
        return protect(member);
    if (order == COORD_ACTION_COMMIT)
        return commit(member);
    member_act(member, (struct member_action){.type = MEMBER_ACTION_OBEY, .order = order});
    return 0;
}

static int take_captured(struct member *member, const struct member_event *event)
{
    if (event->line != member->line || member->order != COORD_ACTION_CAPTURE)
        return 0;
    if (stop_awaiting(member, event->rank))
        member_act(member, (struct member_action){.type = MEMBER_ACTION_SAY, .word = COORD_EVENT_CAPTURED});
    return 0;
}

/*
 * Copies of a line that is not in progress here are refused: an ABORT may have overtaken them on another
 * link. A delta is of use only to a node that has the image that it rests on.
 */
static int take_data(struct member *member, const struct member_event *event)
{
    struct member_action action = {.peer = event->peer, .rank = event->rank};

    if (event->rank >= member->start->rank_count) {
        errno = EINVAL;
        return -1;
    }
    if (member->line == 0 || event->line != member->line)
        return 0;
    action.type = MEMBER_ACTION_NEED_BASE;
    if (event->base_line != 0 && event->base_line != event->image_line)
        return member_act(member, action);
    action.type = MEMBER_ACTION_ADMIT;
    if (member_act(member, action) < 0)
        return -1;
    action.type = MEMBER_ACTION_HELD;
    return member_act(member, action);
}

static int take_held(struct member *member, const struct member_event *event)
{
    if (event->line != member->line || member->order != COORD_ACTION_PROTECT)
        return 0;
    return stop_awaiting(member, event->rank) ? say_protected(member) : 0;
}

static int take_lack(struct member *member, const struct member_event *event)
{
    if (event->line != member->line || member->order != COORD_ACTION_PROTECT ||
        event->rank >= member->start->rank_count || !member->is_awaited[event->rank])
        return 0;
    return member_act(member, (struct member_action){.type = MEMBER_ACTION_PROTECT,
                                                     .peer = member->partner,
                                                     .rank = event->rank,
                                                     .is_whole = true});
}

/* Said only now: the next line's data may overwrite what was staged. */
static int take_applied(struct member *member, const struct member_event *event)
{
    if (member->line == 0 || event->line != member->line || member->order != COORD_ACTION_COMMIT)
        return 0;
    member_act(member, (struct member_action){.type = MEMBER_ACTION_SAY, .word = COORD_EVENT_COMMITTED});
    member->line = 0;
    return 0;
}

/* The number is recorded before anything of the line is: it is never given twice. */
static int prepare(struct member *member, uint64_t line)
{
    struct member_record record = member->record;

    member->line = line;
    member->order = COORD_ACTION_PREPARE;
    member->has_lines = true;
    if (line > record.last_line) {
        record.last_line = line;
        if (member_keep(member, record) < 0)
            return give_up_line(member);
    }
    return member_act(member,
                      (struct member_action){.type = MEMBER_ACTION_OBEY, .order = COORD_ACTION_PREPARE});
}

/* What is staged is about to be written over, so it is protected no more. */
static int capture(struct member *member)
{
    struct member_record record = member->record;

    record.protected_line = 0;
    if (member->record.protected_line != 0 && member_keep(member, record) < 0)
        return give_up_line(member);
    await_all(member);
    member_act(member, (struct member_action){.type = MEMBER_ACTION_OBEY, .order = COORD_ACTION_CAPTURE});
    if (member->awaited_count == 0)
        member_act(member, (struct member_action){.type = MEMBER_ACTION_SAY, .word = COORD_EVENT_CAPTURED});
    return 0;
}

static int protect(struct member *member)
{
    await_all(member);
    if (member->awaited_count == 0)
        return say_protected(member);
    for (uint32_t rank = 0; rank < member->start->rank_count; rank++)
        if (member->is_awaited[rank])
            member_act(member, (struct member_action){
                                   .type = MEMBER_ACTION_PROTECT, .peer = member->partner, .rank = rank});
    return 0;
}

/* The record comes first; what it promises can be done again after a crash. */
static int commit(struct member *member)
{
    struct member_record record = member->record;

    record.committed_line = member->line;
    if (member_keep(member, record) < 0) {
        int code = errno;

        member_call_trouble(member);
        member_act(member, (struct member_action){.type = MEMBER_ACTION_SAY, .word = COORD_EVENT_LOST});
        errno = code;
        return -1;
    }
    return member_act(member,
                      (struct member_action){.type = MEMBER_ACTION_OBEY, .order = COORD_ACTION_COMMIT});
}

/*
 * What is staged and the record of its protection stay until the next capture, or the next epoch: on the
 * other side of a partition the arbiter may be rolling forward to it. It may not if a copy has been refuted:
 * the home of that rank has not protected the line, and without this home the copy would be believed. If the
 * record cannot be changed, the word of any other member, or the home's, decides.
 */
static void abort_line(struct member *member, bool is_refuted)
{
    struct member_record record = member->record;

    if (is_refuted && record.protected_line == member->line) {
        record.protected_line = 0;
        member_keep(member, record);
    }
    member_act(member, (struct member_action){.type = MEMBER_ACTION_OBEY, .order = COORD_ACTION_ABORT});
    member->line = 0;
}

static void await_all(struct member *member)
{
    member->awaited_count = 0;
    for (uint32_t rank = 0; rank < member->start->rank_count; rank++) {
        member->is_awaited[rank] = member_is_local(member, rank);
        member->awaited_count += member->is_awaited[rank];
    }
}

/* True if it was the last. */
static bool stop_awaiting(struct member *member, uint32_t rank)
{
    if (rank >= member->start->rank_count || !member->is_awaited[rank])
        return false;
    member->is_awaited[rank] = false;
    return --member->awaited_count == 0;
}

static int say_protected(struct member *member)
{
    struct member_record record = member->record;

    record.protected_line = member->line;
    record.protected_epoch = member->start->epoch;
    if (member_keep(member, record) < 0)
        return give_up_line(member);
    return member_act(member,
                      (struct member_action){.type = MEMBER_ACTION_SAY, .word = COORD_EVENT_PROTECTED});
}

/* Returns -1 with the errno that it finds. */
static int give_up_line(struct member *member)
{
    int code = errno;

    member_act(member, (struct member_action){.type = MEMBER_ACTION_SAY, .word = COORD_EVENT_ABORT});
    errno = code;
    return -1;
}
