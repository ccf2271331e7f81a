/*
 * rank_report.h - what a rank has published on its control page, and what its agent makes of that:
 * comparisons with the targets of a line, and the report to the coordinator.
 */
#ifndef BELAY_COORD_RANK_REPORT_H
#define BELAY_COORD_RANK_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/control.h"
#include "coord/coord.h"
#include "coord/targets.h"

/* Read consistently. */
struct rank_report {
    enum control_state state;
    uint64_t comm, seq;
    uint32_t peer_count;
    int32_t peers[CONTROL_MAX_PEERS];
    uint64_t parked_line; /* the newest that it has parked for */
    uint32_t clock_count, clock_room;
    struct {
        uint64_t comm, seq, target;
        uint32_t size; /* members of the communicator, 0: not known */
    } * clocks;        /* slots in use; target counts as 0 if none was named for the communicator */
};

/* Raise a table of the largest clocks by a rank's, which has seen one member more. Returns 0 or -1 with
 * ENOMEM. */
int rank_report_raise(const struct rank_report *report, struct targets *clocks);

/* Whether any of a rank's clocks is above the target that its control page holds for it. */
bool rank_report_is_above_target(const struct rank_report *report);

/* Whether its page holds less than these targets: for a communicator that is younger than the order, say. */
bool rank_report_lacks_target(const struct rank_report *report, const struct targets *targets);

/* What the coordinator is told of a rank of the world; peers are borrowed from the report. */
struct coord_report rank_report_make(uint32_t rank, const struct rank_report *report);

/* Whether two reports say the same, also of the targets; peers are compared by value. */
bool rank_report_is_same(const struct coord_report *a, const struct coord_report *b);

#endif
