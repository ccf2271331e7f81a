#include "node-agent/host/translate.h"

static const struct {
    enum peer_kind kind;
    enum coord_event_type type;
} words[] = {
    {PEER_PREPARED, COORD_EVENT_PREPARED},   {PEER_CLOCKS, COORD_EVENT_CLOCKS},
    {PEER_REPORT, COORD_EVENT_REPORT},       {PEER_STOPPED, COORD_EVENT_STOPPED},
    {PEER_PARKED, COORD_EVENT_PARKED},       {PEER_CAPTURED, COORD_EVENT_CAPTURED},
    {PEER_PROTECTED, COORD_EVENT_PROTECTED}, {PEER_COMMITTED, COORD_EVENT_COMMITTED},
    {PEER_ABORTED, COORD_EVENT_ABORT},
};

static const struct {
    enum peer_kind kind;
    enum coord_action_type type;
} orders[] = {
    {PEER_PREPARE, COORD_ACTION_PREPARE}, {PEER_STROBE, COORD_ACTION_STROBE},
    {PEER_TARGETS, COORD_ACTION_TARGETS}, {PEER_STOP, COORD_ACTION_STOP},
    {PEER_DRAIN, COORD_ACTION_DRAIN},     {PEER_CAPTURE, COORD_ACTION_CAPTURE},
    {PEER_PROTECT, COORD_ACTION_PROTECT}, {PEER_COMMIT, COORD_ACTION_COMMIT},
    {PEER_ABORT, COORD_ACTION_ABORT},     {PEER_LEAVE, COORD_ACTION_LEAVE},
    {PEER_DEMAND, COORD_ACTION_DEMAND},
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static struct coord_report read_report(const struct peer_message *message)
{
    static const enum coord_rank_state states[] = {
        [PEER_RANK_RUNNING] = COORD_RANK_RUNNING,
        [PEER_RANK_INSIDE] = COORD_RANK_INSIDE,
        [PEER_RANK_HELD] = COORD_RANK_HELD,
        [PEER_RANK_WAITING] = COORD_RANK_WAITING,
    };
    const struct peer_report *report = &message->report;
    return (struct coord_report){.rank = report->rank,
                                 .state = states[report->state],
                                 .is_below = report->is_below,
                                 .comm = report->comm,
                                 .seq = report->seq,
                                 .peer_count = report->peer_count,
                                 .peers = report->peers,
                                 .targets_version = message->targets_version};
}

struct coord_event translate_word(const struct peer_message *message)
{
    struct coord_event event = {.line = message->line,
                                .clocks = message->clocks,
                                .clock_count = message->clock_count,
                                .reason = message->reason,
                                .is_refuted = message->is_refuted};
    for (size_t i = 0; i < COUNT(words); i++)
        if (words[i].kind == message->kind)
            event.type = words[i].type;
    if (event.type == COORD_EVENT_REPORT)
        event.report = read_report(message);
    return event;
}

/* A branch reports for ranks that run, or wait. */
struct peer_message translate_said(const struct coord_event *word)
{
    const struct coord_report *report = &word->report;
    struct peer_message message = {.role = PEER_MEMBER,
                                   .line = word->line,
                                   .reason = word->reason,
                                   .is_refuted = word->is_refuted,
                                   .clocks = word->clocks,
                                   .clock_count = word->clock_count};
    for (size_t i = 0; i < COUNT(words); i++)
        if (words[i].type == word->type)
            message.kind = words[i].kind;
    if (word->type != COORD_EVENT_REPORT)
        return message;
    message.targets_version = report->targets_version;
    message.report = (struct peer_report){.state = report->state == COORD_RANK_WAITING ? PEER_RANK_WAITING
                                                                                       : PEER_RANK_RUNNING,
                                          .is_below = report->is_below,
                                          .peer_count = report->peer_count,
                                          .peers = report->peers};
    return message;
}

struct peer_message translate_order(const struct coord_action *action)
{
    struct peer_message message = {.role = PEER_HOST,
                                   .epoch = action->epoch,
                                   .line = action->line,
                                   .reason = action->reason,
                                   .is_refuted = action->is_refuted,
                                   .targets_version = action->targets_version,
                                   .clocks = action->clocks,
                                   .clock_count = action->clock_count,
                                   .ranks = action->ranks,
                                   .rank_count = action->rank_count};
    for (size_t i = 0; i < COUNT(orders); i++)
        if (orders[i].type == action->type)
            message.kind = orders[i].kind;
    return message;
}

struct coord_action translate_ordered(const struct peer_message *message)
{
    struct coord_action action = {.epoch = message->epoch,
                                  .line = message->line,
                                  .reason = message->reason,
                                  .is_refuted = message->is_refuted,
                                  .targets_version = message->targets_version,
                                  .clocks = message->clocks,
                                  .clock_count = message->clock_count,
                                  .ranks = message->ranks,
                                  .rank_count = message->rank_count};
    for (size_t i = 0; i < COUNT(orders); i++)
        if (orders[i].kind == message->kind)
            action.type = orders[i].type;
    return action;
}
