/*
 * line_report.h - what the ranks of this node publish, turned into the coordinator's clocks and reports.
 */
#ifndef BELAY_NODE_AGENT_LINE_LINE_REPORT_H
#define BELAY_NODE_AGENT_LINE_LINE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/coord.h"
#include "coord/targets.h"
#include "node-agent/rank/rank.h"

/* Raise a table of the largest clocks by a rank's. Returns 0 or -1 with ENOMEM. */
int report_raise(const struct rank_report *report, struct targets *clocks);

/* Whether any of a rank's clocks is above the target that its control page holds for it. */
bool report_is_above_target(const struct rank_report *report);

/* Whether its page holds less than these targets: for a communicator that is younger than the order, say. */
bool report_lacks_target(const struct rank_report *report, const struct targets *targets);

/* The coordinator's view of a rank; peers are borrowed from the report. */
struct coord_report report_make(uint32_t rank, const struct rank_report *report, uint32_t targets_version);

/* Whether two reports say the same; peers are compared by value. */
bool report_is_same(const struct coord_report *a, const struct coord_report *b);

#endif
