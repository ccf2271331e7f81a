/*
 * opener_host.h - the arbiter as `belay run` has it: coord/opener, which opens an epoch within one call. It
 * runs on a stack of its own (fiber.h), so that all else of the simulation happens while it waits.
 */
#ifndef BELAY_TESTS_SIM_OPENER_HOST_H
#define BELAY_TESTS_SIM_OPENER_HOST_H

#include "tests/sim/world.h"

/* What the process around it does. */
struct opener_host_ops {
    int (*record)(struct world *world, const struct epoch_start *start); /* -1: there is no room */
    void (*tell)(struct world *world, uint32_t node, const struct epoch_start *start);
    void (*settle)(struct world *world); /* what follows from what was done: it may be dying */
};

void opener_host_begin(struct world *world, const struct arbiter_settings *settings,
                       const struct opener_host_ops *process);
void opener_host_end(struct world *world);
void opener_host_take(struct world *world, const struct message *message);
void opener_host_tick(struct world *world);
void opener_host_notice_broken_link(struct world *world, uint32_t node);
/* What the last opening lacked, if it can only end with nodes that come back; else ARBITER_WANT_NOTHING. */
enum arbiter_want opener_host_wants(const struct world *world);

#endif
