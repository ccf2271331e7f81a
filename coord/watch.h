/*
 * watch.h - an agent's part in a line between PREPARE and the capture: what its ranks are ordered, and what
 * they publish, turned into words for the coordinator.
 *
 * Decides, for the ranks of one node: when all clocks are known, whether a clock is above its target, what is
 * reported, when all have parked, that a rank has failed. Pure as coord.h is: control pages, signals and
 * links are the caller's, in callbacks. The same code runs inside belayd and in the simulation (tests/sim).
 *
 * The order of the callbacks is the fence rule of docs/line.md: an order stands on the pages, then comes the
 * fence, and only then is read what ranks have published. CLOCKS that raise a target come before the report
 * that relies on them.
 */
#ifndef BELAY_COORD_WATCH_H
#define BELAY_COORD_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/coord.h"
#include "coord/rank_report.h"
#include "coord/targets.h"

struct watch;

/* `index` is that of a rank among those of the node. No callback may call a function of watch.h. */
struct watch_ops {
    void (*order)(void *context, uint32_t index, enum control_command command, uint64_t line);
    void (*order_targets)(void *context, uint32_t index, uint64_t line, const struct targets *targets);
    /* All ranks of all nodes have the order to stop: messages may be taken from the library. */
    void (*order_drain)(void *context, uint32_t index, uint64_t line);
    /* A rank of this node has failed in this line: nobody waits for what it cannot do. */
    void (*order_leave)(void *context, uint32_t index, uint64_t line);
    void (*fence)(void *context);
    /* What the rank publishes now. False: it is changing it, and watch_look() will be called when it has. */
    bool (*read)(void *context, uint32_t index);
    /* As read last, by the callback or before watch_look(). Never NULL. */
    const struct rank_report *(*report)(void *context, uint32_t index);
    /* Why the rank cannot do its part in the line, NULL: it can. Valid until the next call. */
    const char *(*failure)(void *context, uint32_t index, uint64_t line);
    /* Does the rank, which says that it computes, sleep until others end that? */
    bool (*is_asleep)(void *context, uint32_t index);
    /* Type, line, and what the type carries: CLOCKS, REPORT, STOPPED, PARKED, ABORT. */
    void (*say)(void *context, const struct coord_event *word);
};

/*
 * For the ranks of a node, which have these numbers in a world of `world` ranks. ops are borrowed. NULL with
 * ENOMEM.
 */
struct watch *watch_create(uint32_t world, const uint32_t *ranks, uint32_t count, const struct watch_ops *ops,
                           void *context);
/* Accepts NULL. */
void watch_destroy(struct watch *watch);

/* A line is being prepared: nothing is ordered or looked at yet, and nothing of an earlier line counts. */
void watch_begin(struct watch *watch, uint64_t line);
/* STROBE, TARGETS, STOP and DRAIN of that line. Targets that a version does not name stay as they are. */
void watch_strobe(struct watch *watch);
void watch_set_targets(struct watch *watch, uint32_t version, const struct coord_clock *clocks,
                       uint32_t count);
void watch_stop(struct watch *watch);
void watch_drain(struct watch *watch);
/* LEAVE: a rank of some node has failed, and nobody waits in the drain for what it cannot do. */
void watch_leave(struct watch *watch);
/* The line takes long to converge: from here on ranks that sleep in system calls count as waiting. */
void watch_lose_patience(struct watch *watch);
/* The line is aborted or captured: it is not looked at any more. */
void watch_end(struct watch *watch);

/* A rank has published something, and it has been read. */
void watch_look(struct watch *watch, uint32_t index);

#endif
