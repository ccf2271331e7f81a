#include "node-agent/member/report.h"

#include <string.h>

static enum peer_rank_state state_of(enum control_state state);

int report_raise(const struct rank_report *report, struct targets *clocks)
{
    for (uint32_t i = 0; i < report->clock_count; i++)
        if (targets_raise(clocks, report->clocks[i].comm, report->clocks[i].seq) < 0)
            return -1;
    return 0;
}

bool report_is_above_target(const struct rank_report *report)
{
    for (uint32_t i = 0; i < report->clock_count; i++)
        if (report->clocks[i].seq > report->clocks[i].target)
            return true;
    return false;
}

bool report_lacks_target(const struct rank_report *report, const struct targets *targets)
{
    for (uint32_t i = 0; i < report->clock_count; i++)
        if (report->clocks[i].target < targets_find(targets, report->clocks[i].comm))
            return true;
    return false;
}

struct peer_report report_make(uint32_t rank, const struct rank_report *report)
{
    struct peer_report made = {.rank = rank, .state = state_of(report->state)};
    if (made.state == PEER_RANK_INSIDE || made.state == PEER_RANK_HELD) {
        made.comm = report->comm;
        made.seq = report->seq;
    } else if (made.state == PEER_RANK_WAITING) {
        made.peer_count = report->peer_count;
        made.peers = report->peers;
    }
    for (uint32_t i = 0; i < report->clock_count; i++)
        if (report->clocks[i].seq < report->clocks[i].target)
            made.is_below = true;
    return made;
}

bool report_is_same(const struct peer_report *a, const struct peer_report *b)
{
    return a->rank == b->rank && a->state == b->state && a->is_below == b->is_below && a->comm == b->comm &&
           a->seq == b->seq && a->peer_count == b->peer_count &&
           (a->peer_count == 0 || !memcmp(a->peers, b->peers, a->peer_count * sizeof *a->peers));
}

/* Whoever drains or has parked needs nobody any more. */
static enum peer_rank_state state_of(enum control_state state)
{
    switch (state) {
    case CONTROL_STATE_INSIDE:
        return PEER_RANK_INSIDE;
    case CONTROL_STATE_HELD:
        return PEER_RANK_HELD;
    case CONTROL_STATE_WAITING:
        return PEER_RANK_WAITING;
    default:
        return PEER_RANK_RUNNING;
    }
}
