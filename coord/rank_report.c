#include "coord/rank_report.h"

#include <string.h>

static enum coord_rank_state state_of(enum control_state state);

int rank_report_raise(const struct rank_report *report, struct targets *clocks)
{
    for (uint32_t i = 0; i < report->clock_count; i++) {
        if (targets_raise(clocks, report->clocks[i].comm, report->clocks[i].seq) < 0)
            return -1;
        targets_see(clocks, report->clocks[i].comm, 1, report->clocks[i].size);
    }
    return 0;
}

bool rank_report_is_above_target(const struct rank_report *report)
{
    for (uint32_t i = 0; i < report->clock_count; i++)
        if (report->clocks[i].seq > report->clocks[i].target)
            return true;
    return false;
}

bool rank_report_lacks_target(const struct rank_report *report, const struct targets *targets)
{
    for (uint32_t i = 0; i < report->clock_count; i++)
        if (report->clocks[i].target < targets_find(targets, report->clocks[i].comm))
            return true;
    return false;
}

struct coord_report rank_report_make(uint32_t rank, const struct rank_report *report)
{
    struct coord_report made = {.rank = rank, .state = state_of(report->state)};

    if (made.state == COORD_RANK_INSIDE || made.state == COORD_RANK_HELD) {
        made.comm = report->comm;
        made.seq = report->seq;
    } else if (made.state == COORD_RANK_WAITING) {
        made.peer_count = report->peer_count;
        made.peers = report->peers;
    }
    for (uint32_t i = 0; i < report->clock_count; i++)
        if (report->clocks[i].seq < report->clocks[i].target)
            made.is_below = true;
    return made;
}

bool rank_report_is_same(const struct coord_report *a, const struct coord_report *b)
{
    return a->rank == b->rank && a->state == b->state && a->is_below == b->is_below && a->comm == b->comm &&
           a->seq == b->seq && a->targets_version == b->targets_version && a->peer_count == b->peer_count &&
           (a->peer_count == 0 || !memcmp(a->peers, b->peers, a->peer_count * sizeof(*a->peers)));
}

/* A rank that drains or has parked needs nobody any more. */
static enum coord_rank_state state_of(enum control_state state)
{
    switch (state) {
    case CONTROL_STATE_INSIDE:
        return COORD_RANK_INSIDE;
    case CONTROL_STATE_HELD:
        return COORD_RANK_HELD;
    case CONTROL_STATE_WAITING:
        return COORD_RANK_WAITING;
    default:
        return COORD_RANK_RUNNING;
    }
}
