/*
 * coord_host.h - the coordinator's role of one agent: the real coord.c, fed from links and a timer.
 */
#ifndef BELAY_TESTS_SIM_COORD_HOST_H
#define BELAY_TESTS_SIM_COORD_HOST_H

#include "tests/sim/world.h"

/* The agent of this node becomes the coordinator of its epoch; lines are counted on from last_line. */
void coord_host_begin(struct world *world, uint32_t node, uint64_t last_line);
void coord_host_end(struct world *world, uint32_t node);
/* An event from a member's agent. Mutations that break the coordinator's rules are applied here. */
void coord_host_take(struct world *world, uint32_t node, const struct message *message,
                     const struct coord_event *event);
/* A member has launched its ranks. */
void coord_host_ready(struct world *world, uint32_t node, uint32_t member);
/* The timer: ask for a line if the job runs. */
void coord_host_strobe(struct world *world, uint32_t node);
/* The job finalizes, in this epoch. */
void coord_host_close(struct world *world, uint32_t node, uint32_t epoch);

#endif
