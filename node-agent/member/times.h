/*
 * times.h - how long the ranks of this node stood still for a line, from the strobe until all of them run
 * again.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_TIMES_H
#define BELAY_NODE_AGENT_MEMBER_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/peer_message.h"
#include "node-agent/rank/rank.h"
#include "node-agent/store/commits.h"

struct line_times {
    uint64_t line;                                        /* 0: none */
    uint64_t strobe_ns, ordered_ns, converged_ns, end_ns; /* CLOCK_MONOTONIC; 0: not yet */
    uint64_t drain_ns;                                    /* the slowest rank's */
    uint64_t dirty_bytes, captured_bytes;                 /* staged; copied, which may be more than once */
    uint64_t image_bytes;                                 /* of the images, once the line is committed */
    struct peer_sent sent;                                /* to other members */
    struct peer_guarded guarded;                          /* copied while the ranks ran */
    struct peer_copied copied;                            /* what was copied when */
    uint64_t *stopped_ns; /* by rank of this node: when it stopped; NULL: not parked yet */
};

/* A line begins; what was measured before is forgotten. */
void times_begin(struct line_times *times, uint64_t line);
void times_release(struct line_times *times);

/* All ranks are parked. If memory lacks, the pause stays unknown. */
void times_parked(struct line_times *times, struct rank *const *ranks, uint32_t count);

/* What is known at the commit or abort goes into its record. */
void times_end(struct line_times *times, struct commit_entry *record);

/* Whether every rank that lives runs again after the line. */
bool times_is_complete(const struct line_times *times, struct rank *const *ranks, uint32_t count);

/* What is known by now, for the host. Ranks that do not run again yet are not counted in the pause. */
struct peer_measures times_tell(const struct line_times *times, struct rank *const *ranks, uint32_t count);

#endif
