#include "node-agent/line_report.h"

#include <stdlib.h>
#include <string.h>

static enum coord_rank_state state_of(enum control_state state);

void clock_table_release(struct clock_table *table)
{
    free(table->clocks);
    *table = (struct clock_table){0};
}

void clock_table_reset(struct clock_table *table)
{
    table->count = 0;
}

int clock_table_raise(struct clock_table *table, const struct rank_report *report)
{
    for (uint32_t i = 0; i < report->clock_count; i++) {
        uint32_t at = 0;
        while (at < table->count && table->clocks[at].comm != report->clocks[i].comm)
            at++;
        if (at == table->room) {
            uint32_t room = table->room ? table->room * 2 : 16;
            struct coord_clock *larger = realloc(table->clocks, room * sizeof *larger);
            if (!larger)
                return -1;
            table->clocks = larger;
            table->room = room;
        }
        if (at == table->count)
            table->clocks[table->count++] = (struct coord_clock){.comm = report->clocks[i].comm};
        if (table->clocks[at].seq < report->clocks[i].seq)
            table->clocks[at].seq = report->clocks[i].seq;
    }
    return 0;
}

bool report_is_above_target(const struct rank_report *report)
{
    for (uint32_t i = 0; i < report->clock_count; i++)
        if (report->clocks[i].seq > report->clocks[i].target)
            return true;
    return false;
}

struct coord_report report_make(uint32_t rank, const struct rank_report *report, uint32_t targets_version)
{
    struct coord_report made = {
        .rank = rank,
        .state = state_of(report->state),
        .targets_version = targets_version,
    };
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

bool report_is_same(const struct coord_report *a, const struct coord_report *b)
{
    return a->rank == b->rank && a->state == b->state && a->is_below == b->is_below && a->comm == b->comm &&
           a->seq == b->seq && a->targets_version == b->targets_version && a->peer_count == b->peer_count &&
           (a->peer_count == 0 || !memcmp(a->peers, b->peers, a->peer_count * sizeof *a->peers));
}

/* Whoever drains or has parked needs nobody any more. */
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
