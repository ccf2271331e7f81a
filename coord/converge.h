/*
 * converge.h - how a line converges in a subtree of the tree, as its branch sees it (branch.h): the clocks,
 * the targets, whose ranks are settled, who is demanded.
 *
 * Part of the branch, which knows phases and lines: it calls these functions while the line converges, and
 * gets orders and words by the callbacks. Ranks of the own member, and of children without children, report
 * one by one; a child that is a branch reports for all of its ranks. Pure.
 */
#ifndef BELAY_COORD_CONVERGE_H
#define BELAY_COORD_CONVERGE_H

#include "coord/coord.h"
#include "coord/tree.h"

struct converge;

struct converge_ops {
    /* To a voice: a new version of the targets, with those that the voice does not know yet. */
    void (*order_targets)(void *context, uint32_t voice, uint32_t version, const struct coord_clock *clocks,
                          uint32_t count);
    /* To a voice that is a branch: ranks elsewhere wait for these of its ranks (ascending; none: for all). */
    void (*demand)(void *context, uint32_t voice, uint32_t version, const uint32_t *ranks, uint32_t count);
    /* To the parent. */
    void (*say_clocks)(void *context, const struct coord_clock *clocks, uint32_t count);
    void (*report)(void *context, const struct coord_report *report);
};

/* part: the branch's subtree. NULL with ENOMEM. */
struct converge *converge_create(const struct tree_place *place, struct tree_part part,
                                 const struct converge_ops *ops, void *context);
/* Accepts NULL. */
void converge_destroy(struct converge *converge);

/* A new line: nothing is known. */
void converge_begin(struct converge *converge);
/* What a voice says of its clocks is noted. These functions return 0, or -1 with ENOMEM. */
int converge_take_clocks(struct converge *converge, uint32_t voice, const struct coord_clock *clocks,
                         uint32_t count);
/* All voices have said their clocks: tell the parent of those whose members are not all here. */
int converge_say_clocks(struct converge *converge);
/* See what follows from clocks that were noted later. */
int converge_settle(struct converge *converge);
/* The parent's targets, in a new version. */
int converge_take_targets(struct converge *converge, uint32_t version, const struct coord_clock *clocks,
                          uint32_t count);
/* A voice's report: its rank, if it is a member, has been found to be its own. */
int converge_report(struct converge *converge, uint32_t voice, const struct coord_report *report);
/* The parent's demand, in the version of its targets. */
int converge_demand(struct converge *converge, uint32_t version, const uint32_t *ranks, uint32_t count);

#endif
