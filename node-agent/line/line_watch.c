/* line_watch.c - what ranks publish becomes the coordinator's events. */
#include <stdio.h>
#include <string.h>

#include "node-agent/line/line_report.h"
#include "node-agent/line/line_state.h"
#include "node-agent/rank/asleep.h"

static bool order_again(struct line *line, struct member *member);
static void send_clocks(struct line *line);
static void send_report(struct line *line, struct member *member);
static void note_failed(struct line *line, struct member *member);
static void note_parked(struct line *line, struct member *member);

void line_look_at(struct line *line, struct member *member)
{
    line_settle_if_resumed(line);
    if (rank_report(member->rank)->state == CONTROL_STATE_FINALIZED) {
        line_close(line); /* it takes no orders any more, those of a line in progress included */
        return;
    }
    if (line->number == 0 || line->ahead)
        return;
    member->is_read = true;
    if (line->targets_version == 0) {
        send_clocks(line);
        return;
    }
    if (report_lacks_target(rank_report(member->rank), &line->ordered) && !order_again(line, member))
        return;
    if (report_is_above_target(rank_report(member->rank)))
        send_clocks(line);
    send_report(line, member);
    note_failed(line, member);
    note_parked(line, member);
}

/*
 * The rank has a communicator that it had not when the targets were written, and that others have used by
 * then: it would hold below the target, and nobody would release it. False: it is changing, and will say so.
 */
static bool order_again(struct line *line, struct member *member)
{
    rank_order_targets(member->rank, line->number, line->targets_version, &line->ordered);
    order_fence();
    return rank_read(member->rank);
}

/* The first time all ranks must have been read after the strobe; the coordinator waits for that. */
static void send_clocks(struct line *line)
{
    targets_reset(&line->clocks);
    for (uint32_t i = 0; i < line->count; i++) {
        struct member *member = &line->members[i];
        if (!member->is_read)
            return;
        if (report_raise(rank_report(member->rank), &line->clocks) < 0) {
            line_say(line, COORD_EVENT_ABORT, "the agent is out of memory");
            return;
        }
    }
    line_step(line, (struct coord_event){.type = COORD_EVENT_CLOCKS,
                                         .epoch = line->epoch,
                                         .agent = OWN_AGENT,
                                         .line = line->number,
                                         .clocks = line->clocks.clocks,
                                         .clock_count = line->clocks.count});
}

static void send_report(struct line *line, struct member *member)
{
    const struct rank_report *report = rank_report(member->rank);
    struct coord_report made = report_make(rank_number(member->rank), report, line->targets_version);
    if (line->is_impatient && made.state == COORD_RANK_RUNNING && asleep_for_others(rank_pid(member->rank)))
        made.state = COORD_RANK_WAITING; /* for something that others have, outside of MPI: for anybody */
    if (member->has_sent && report_is_same(&made, &member->sent))
        return;
    member->has_sent = true;
    member->sent = made;
    if (made.peer_count > 0) {
        memcpy(member->sent_peers, made.peers, made.peer_count * sizeof *made.peers);
        member->sent.peers = member->sent_peers;
    }
    line_step(line, (struct coord_event){.type = COORD_EVENT_REPORT,
                                         .epoch = line->epoch,
                                         .agent = OWN_AGENT,
                                         .line = line->number,
                                         .report = made});
}

/*
 * The line is over, but ranks finish a drain together: the coordinator keeps the reason until all have
 * parked, and none may wait for this one meanwhile. Looked at before the rank counts as parked: it says so
 * first.
 */
static void note_failed(struct line *line, struct member *member)
{
    char failure[CONTROL_FAILURE_BYTES], reason[CONTROL_FAILURE_BYTES + 32];
    if (member->has_failed || !rank_failure(member->rank, line->number, failure))
        return;
    member->has_failed = true;
    for (uint32_t i = 0; i < line->count; i++)
        rank_order_leave(line->members[i].rank, line->number);
    snprintf(reason, sizeof reason, "rank %u: %s", rank_number(member->rank), failure);
    line_say(line, COORD_EVENT_ABORT, reason);
}

static void note_parked(struct line *line, struct member *member)
{
    if (member->is_parked || rank_report(member->rank)->state != CONTROL_STATE_PARKED ||
        RANK_FIELD(member->rank, parked_line) != line->number)
        return;
    member->is_parked = true;
    if (++line->parked == line->count)
        line_say(line, COORD_EVENT_PARKED, NULL);
}
