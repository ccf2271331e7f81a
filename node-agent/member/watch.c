/* watch.c - what ranks publish becomes words for the host. */
#include <stdio.h>
#include <string.h>

#include "node-agent/member/member_state.h"
#include "node-agent/member/report.h"
#include "node-agent/rank/asleep.h"

static bool order_again(struct line_member *member, struct watched *watched);
static void say_clocks(struct line_member *member);
static void say_report(struct line_member *member, struct watched *watched);
static void note_failed(struct line_member *member, struct watched *watched);
static void note_parked(struct line_member *member, struct watched *watched);

void member_look_at(struct line_member *member, struct watched *watched)
{
    member_settle_if_resumed(member);
    if (rank_report(watched->rank)->state == CONTROL_STATE_FINALIZED) {
        line_member_close(member); /* it takes no orders any more, those of a line in progress included */
        return;
    }
    if (member->line == 0 || member->ahead)
        return;
    watched->is_read = true;
    if (member->targets_version == 0) {
        say_clocks(member);
        return;
    }
    if (report_lacks_target(rank_report(watched->rank), &member->ordered) && !order_again(member, watched))
        return;
    if (report_is_above_target(rank_report(watched->rank)))
        say_clocks(member);
    say_report(member, watched);
    note_failed(member, watched);
    note_parked(member, watched);
}

/* Of those whose report can be read now; the others will be looked at when they say so. */
void member_look_at_all(struct line_member *member)
{
    for (uint32_t i = 0; i < member->count; i++)
        if (rank_read(member->ranks[i]))
            member_look_at(member, &member->watched[i]);
}

/*
 * The rank has a communicator that it had not when the targets were written, and that others have used by
 * then: it would hold below the target, and nobody would release it. False: it is changing, and will say so.
 */
static bool order_again(struct line_member *member, struct watched *watched)
{
    rank_order_targets(watched->rank, member->line, member->targets_version, &member->ordered);
    order_fence();
    return rank_read(watched->rank);
}

/* The first time all ranks must have been read after the strobe; the coordinator waits for that. */
static void say_clocks(struct line_member *member)
{
    targets_reset(&member->clocks);
    for (uint32_t i = 0; i < member->count; i++) {
        if (!member->watched[i].is_read)
            return;
        if (report_raise(rank_report(member->ranks[i]), &member->clocks) < 0) {
            say_aborted(member, "the agent is out of memory");
            return;
        }
    }
    say_message(member, (struct peer_message){.kind = PEER_CLOCKS,
                                              .line = member->line,
                                              .clocks = member->clocks.clocks,
                                              .clock_count = member->clocks.count});
}

static void say_report(struct line_member *member, struct watched *watched)
{
    const struct rank_report *report = rank_report(watched->rank);
    struct peer_report made = report_make(rank_number(watched->rank), report);
    int32_t peers[CONTROL_MAX_PEERS];
    if (member->is_impatient && made.state == PEER_RANK_RUNNING && asleep_for_others(rank_pid(watched->rank)))
        made.state = PEER_RANK_WAITING; /* for something that others have, outside of MPI: for anybody */
    for (uint32_t i = 0; i < made.peer_count; i++) /* a rank may say anything, the host not */
        peers[i] = made.peers[i] < (int64_t)member->world ? made.peers[i] : -1;
    made.peers = peers;
    if (watched->has_sent && watched->sent_version == member->targets_version &&
        report_is_same(&made, &watched->sent))
        return;
    watched->has_sent = true;
    watched->sent = made;
    watched->sent_version = member->targets_version;
    memcpy(watched->sent_peers, peers, made.peer_count * sizeof *peers);
    watched->sent.peers = watched->sent_peers;
    say_message(member, (struct peer_message){.kind = PEER_REPORT,
                                              .line = member->line,
                                              .targets_version = member->targets_version,
                                              .report = made});
}

/*
 * The line is over, but ranks finish a drain together: the coordinator keeps the reason until all have
 * parked, and none may wait for this one meanwhile. Looked at before the rank counts as parked: it says so
 * first.
 */
static void note_failed(struct line_member *member, struct watched *watched)
{
    char failure[CONTROL_FAILURE_BYTES], reason[CONTROL_FAILURE_BYTES + 32];
    if (watched->has_failed || !rank_failure(watched->rank, member->line, failure))
        return;
    watched->has_failed = true;
    for (uint32_t i = 0; i < member->count; i++)
        rank_order_leave(member->ranks[i], member->line);
    snprintf(reason, sizeof reason, "rank %u: %s", rank_number(watched->rank), failure);
    say_aborted(member, reason);
}

static void note_parked(struct line_member *member, struct watched *watched)
{
    if (watched->is_parked || rank_report(watched->rank)->state != CONTROL_STATE_PARKED ||
        RANK_FIELD(watched->rank, parked_line) != member->line)
        return;
    watched->is_parked = true;
    if (++member->parked == member->count)
        say_of_line(member, PEER_PARKED, member->line, NULL);
}
