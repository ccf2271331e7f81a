/* watch.c - the ranks of this node as coord/watch.h watches them: their pages, and words for the host. */
#include <stdlib.h>

#include "node-agent/member/member.h"
#include "node-agent/member/member_state.h"
#include "node-agent/member/words.h"
#include "node-agent/rank/asleep.h"

static void order(void *context, uint32_t index, enum control_command command, uint64_t line);
static void order_targets(void *context, uint32_t index, uint64_t line, const struct targets *targets);
static void order_drain(void *context, uint32_t index, uint64_t line);
static void order_leave(void *context, uint32_t index, uint64_t line);
static void fence(void *context);
static bool read_rank(void *context, uint32_t index);
static const struct rank_report *report_of(void *context, uint32_t index);
static const char *failure_of(void *context, uint32_t index, uint64_t line);
static bool is_asleep(void *context, uint32_t index);
static void say_word(void *context, const struct coord_event *word);
static void say_report(struct line_member *member, const struct coord_event *word);

static const struct watch_ops ops = {.order = order,
                                     .order_targets = order_targets,
                                     .order_drain = order_drain,
                                     .order_leave = order_leave,
                                     .fence = fence,
                                     .read = read_rank,
                                     .report = report_of,
                                     .failure = failure_of,
                                     .is_asleep = is_asleep,
                                     .say = say_word};

struct watch *member_watch_create(struct line_member *member, const struct line_member_epoch *epoch)
{
    uint32_t *numbers = calloc(epoch->count + 1, sizeof *numbers);
    struct watch *watch = NULL;
    for (uint32_t i = 0; numbers && i < epoch->count; i++)
        numbers[i] = rank_number(epoch->ranks[i]);
    if (numbers)
        watch = watch_create(epoch->world, numbers, epoch->count, &ops, member);
    free(numbers);
    return watch;
}

void member_look_at(struct line_member *member, uint32_t index)
{
    member_settle_if_resumed(member);
    if (rank_report(member->ranks[index])->state == CONTROL_STATE_FINALIZED) {
        line_member_close(member); /* it takes no orders any more, those of a line in progress included */
        return;
    }
    watch_look(member->watch, index);
}

static void order(void *context, uint32_t index, enum control_command command, uint64_t line)
{
    const struct line_member *member = context;
    rank_order(member->ranks[index], command, line);
}

static void order_targets(void *context, uint32_t index, uint64_t line, const struct targets *targets)
{
    const struct line_member *member = context;
    rank_order_targets(member->ranks[index], line, targets->version, targets);
}

static void order_drain(void *context, uint32_t index, uint64_t line)
{
    const struct line_member *member = context;
    rank_order_drain(member->ranks[index], line);
    rank_signal(member->ranks[index]);
}

static void order_leave(void *context, uint32_t index, uint64_t line)
{
    const struct line_member *member = context;
    rank_order_leave(member->ranks[index], line);
}

static void fence(void *context)
{
    (void)context;
    order_fence();
}

/* A rank that has finalized ends the epoch's lines, and is not watched. */
static bool read_rank(void *context, uint32_t index)
{
    struct line_member *member = context;
    struct rank *rank = member->ranks[index];
    if (!rank_read(rank))
        return false;
    if (rank_report(rank)->state != CONTROL_STATE_FINALIZED)
        return true;
    line_member_close(member);
    return false;
}

static const struct rank_report *report_of(void *context, uint32_t index)
{
    const struct line_member *member = context;
    return rank_report(member->ranks[index]);
}

static const char *failure_of(void *context, uint32_t index, uint64_t line)
{
    struct line_member *member = context;
    return rank_failure(member->ranks[index], line, member->failure) ? member->failure : NULL;
}

static bool is_asleep(void *context, uint32_t index)
{
    const struct line_member *member = context;
    return asleep_for_others(rank_pid(member->ranks[index]));
}

static void say_word(void *context, const struct coord_event *word)
{
    struct line_member *member = context;
    if (word->type == COORD_EVENT_CLOCKS)
        say_message(member, (struct peer_message){.kind = PEER_CLOCKS,
                                                  .line = word->line,
                                                  .clocks = word->clocks,
                                                  .clock_count = word->clock_count});
    else if (word->type == COORD_EVENT_REPORT)
        say_report(member, word);
    else if (word->type == COORD_EVENT_STOPPED)
        say_of_line(member, PEER_STOPPED, word->line, NULL);
    else if (word->type == COORD_EVENT_PARKED)
        say_of_line(member, PEER_PARKED, word->line, NULL);
    else if (word->type == COORD_EVENT_ABORT)
        say_aborted(member, word->reason);
}

static void say_report(struct line_member *member, const struct coord_event *word)
{
    static const enum peer_rank_state states[] = {
        [COORD_RANK_RUNNING] = PEER_RANK_RUNNING,
        [COORD_RANK_INSIDE] = PEER_RANK_INSIDE,
        [COORD_RANK_HELD] = PEER_RANK_HELD,
        [COORD_RANK_WAITING] = PEER_RANK_WAITING,
    };
    const struct coord_report *report = &word->report;
    say_message(member, (struct peer_message){.kind = PEER_REPORT,
                                              .line = word->line,
                                              .targets_version = report->targets_version,
                                              .report = {.rank = report->rank,
                                                         .state = states[report->state],
                                                         .is_below = report->is_below,
                                                         .comm = report->comm,
                                                         .seq = report->seq,
                                                         .peer_count = report->peer_count,
                                                         .peers = report->peers}});
}
