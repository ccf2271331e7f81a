/*
 * watch_host.h - the watch of one agent's ranks: the real coord/watch.c, over control pages in the world. It
 * is told of orders, and of what ranks have published; its words go to the coordinator. Nothing is decided
 * here.
 */
#ifndef BELAY_TESTS_SIM_WATCH_HOST_H
#define BELAY_TESTS_SIM_WATCH_HOST_H

#include "tests/sim/world.h"

/* The agent has entered an epoch; it leaves it, or ends. */
void watch_host_begin(struct world *world, uint32_t node);
void watch_host_end(struct world *world, uint32_t node);

/* An order of the coordinator that is to be obeyed; message: as it came. Others than the watch's do nothing.
 */
void watch_host_obey(struct world *world, uint32_t node, enum coord_action_type order,
                     const struct message *message);
/* A rank of the node has published something. */
void watch_host_notice(struct world *world, uint32_t node, uint32_t rank);

#endif
