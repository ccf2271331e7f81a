/*
 * waitfor.h - the ranks' reports in a line, and which rank waits for which (docs/line.md, "The rank's side").
 *
 * A rank is settled when its newest report is for the newest targets, and says that the rank is below none of
 * them and not inside a collective. The line has converged when all ranks are settled. A rank is demanded
 * when it is WAITING below target, or when a demanded rank waits for it. A demanded rank that is HELD while
 * below target on nothing has to be released. A demand is kept for one version of the targets and may outlive
 * its cause: a release that was not necessary costs time, never correctness.
 *
 * Cost: a report costs the length of its own peer list; a whole version costs at most the sum of all
 * lists; a wait for anybody costs one pass over the ranks per version.
 *
 * A rank that is INSIDE, or that waits for a non-blocking collective, needs no edge: a rank that has not
 * entered this collective yet is below target, and is itself demanded if it waits.
 */
#ifndef BELAY_COORD_WAITFOR_H
#define BELAY_COORD_WAITFOR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/coord_clock.h"
#include "coord/coord_report.h"

struct waitfor_rank;

/*
 * For ranks of which only some report here: each of them as a reporter, and others together, as one reporter
 * (branch.h). Without a router each rank of the world is a reporter, by its number.
 */
struct waitfor_router {
    /* The reporter that a demanded rank of the world is, WAITFOR_NOT_HERE: another place has been told. */
    uint32_t (*find)(void *context, uint32_t rank);
    /* All ranks are demanded; called once in a version. */
    void (*demand_all)(void *context);
    void *context;
    uint32_t first_group; /* reporters from here on stand for many ranks: whom they wait for is demanded */
};
#define WAITFOR_NOT_HERE UINT32_MAX

struct waitfor {
    struct waitfor_rank *ranks;
    const struct waitfor_router *router; /* borrowed; NULL: none */
    uint32_t rank_count;                 /* of reporters */
    uint32_t version;                    /* of the targets that count; reports for others are ignored */
    uint32_t unsettled;                  /* ranks not settled in this version */
    uint32_t heard;                      /* those that have reported in this version */
    uint32_t everybody_version;          /* the newest version in which a demanded rank waits for any rank */
    uint32_t *pending; /* work list: demanded ranks to look at; each at most once per report */
    uint32_t pending_count;
    struct coord_clock *released; /* found since the last waitfor_clear_released() */
    uint32_t released_count;
};

/* A zeroed struct holds no ranks. Returns 0, or -1 with ENOMEM (then it holds none). */
int waitfor_init(struct waitfor *waitfor, uint32_t rank_count);
void waitfor_destroy(struct waitfor *waitfor);

/* New targets are out (version 0: a new line begins): nobody is settled, nobody is demanded. */
void waitfor_begin_version(struct waitfor *waitfor, uint32_t version);

/*
 * Take one report (its rank in range). Releases that follow are appended to `released`, as the clock that
 * the target has to reach. Returns 0, or -1 with ENOMEM (the report is not taken).
 */
int waitfor_report(struct waitfor *waitfor, const struct coord_report *report);
/* Ranks elsewhere wait for these in this version; none: for anybody. Releases follow as of a report. */
void waitfor_demand(struct waitfor *waitfor, const int32_t *ranks, uint32_t count);
void waitfor_clear_released(struct waitfor *waitfor);

bool waitfor_is_settled(const struct waitfor *waitfor);
/* Has each rank reported in this version? */
bool waitfor_has_heard_all(const struct waitfor *waitfor);

#endif
