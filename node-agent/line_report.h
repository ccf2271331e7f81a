/*
 * line_report.h - what the ranks of this node publish, turned into the coordinator's clocks and reports.
 */
#ifndef BELAY_NODE_AGENT_LINE_REPORT_H
#define BELAY_NODE_AGENT_LINE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/coord.h"
#include "node-agent/rank.h"

/* Largest clocks by communicator. */
struct clock_table {
    struct coord_clock *clocks;
    uint32_t count, room;
};

/* A zeroed table is empty. */
void clock_table_release(struct clock_table *table);
/* Forget all entries; keeps the memory. */
void clock_table_reset(struct clock_table *table);
/* Raise the table by a rank's clocks. Returns 0 or -1 with ENOMEM. */
int clock_table_raise(struct clock_table *table, const struct rank_report *report);

/* Whether any of a rank's clocks is above the target that its control page holds for it. */
bool report_is_above_target(const struct rank_report *report);

/* The coordinator's view of a rank; peers are borrowed from the report. */
struct coord_report report_make(uint32_t rank, const struct rank_report *report, uint32_t targets_version);

/* Whether two reports say the same; peers are compared by value. */
bool report_is_same(const struct coord_report *a, const struct coord_report *b);

#endif
