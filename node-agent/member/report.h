/*
 * report.h - what the ranks of this node publish, turned into clocks and reports for the host.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_REPORT_H
#define BELAY_NODE_AGENT_MEMBER_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/peer_message.h"
#include "coord/targets.h"
#include "node-agent/rank/rank.h"

/* Raise a table of the largest clocks by a rank's. Returns 0 or -1 with ENOMEM. */
int report_raise(const struct rank_report *report, struct targets *clocks);

/* Whether any of a rank's clocks is above the target that its control page holds for it. */
bool report_is_above_target(const struct rank_report *report);

/*
 * Whether the rank's page lacks one of these targets, for example of a communicator that was made after the
 * targets were written.
 */
bool report_lacks_target(const struct rank_report *report, const struct targets *targets);

/* The report for the host on a world rank; peers are borrowed from the rank's report. */
struct peer_report report_make(uint32_t rank, const struct rank_report *report);

/* Whether two reports say the same; peers are compared by value. */
bool report_is_same(const struct peer_report *a, const struct peer_report *b);

#endif
