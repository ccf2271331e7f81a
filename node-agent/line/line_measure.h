/*
 * line_measure.h - the times of one line, from the strobe until every rank runs again.
 */
#ifndef BELAY_NODE_AGENT_LINE_LINE_MEASURE_H
#define BELAY_NODE_AGENT_LINE_LINE_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "node-agent/job/history.h"
#include "node-agent/rank/rank.h"
#include "node-agent/store/commits.h"

struct line_measure {
    uint64_t line;                                        /* 0: none */
    uint64_t strobe_ns, ordered_ns, converged_ns, end_ns; /* CLOCK_MONOTONIC; 0: not yet */
    uint64_t drain_ns;                                    /* the slowest rank's */
    uint64_t dirty_bytes, captured_bytes;                 /* staged; copied, which may be more than once */
    uint64_t *stopped_ns; /* by rank: when it stood still; NULL: not parked yet */
};

/* A line begins; what was measured before is forgotten. */
void measure_begin(struct line_measure *measure, uint64_t line);
void measure_release(struct line_measure *measure);

/* All ranks are parked. If memory lacks, the pause stays unknown. */
void measure_parked(struct line_measure *measure, struct rank *const *ranks, uint32_t count);

/* Time since the strobe. */
uint64_t measure_age_ms(const struct line_measure *measure);

/* What is known at the commit or abort goes into its record. */
void measure_end(struct line_measure *measure, struct commit_entry *record);

/* Whether every rank that lives runs again after the line. */
bool measure_is_complete(const struct line_measure *measure, struct rank *const *ranks, uint32_t count);

/*
 * Everything known goes into the history. The pause counts ranks that run again, and the total lasts until
 * the last of them does or until the commit, whichever is later.
 */
void measure_fill(const struct line_measure *measure, struct rank *const *ranks, uint32_t count,
                  struct history_line *entry);

#endif
