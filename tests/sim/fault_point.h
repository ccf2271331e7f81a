/*
 * fault_point.h - a step of the protocol has been done: whether it is somebody's last.
 *
 * The parts that do the steps include this; what a crash is, fault.c knows, which knows these parts.
 */
#ifndef BELAY_TESTS_SIM_FAULT_POINT_H
#define BELAY_TESTS_SIM_FAULT_POINT_H

#include "tests/sim/world.h"

/* A step has been done at this node: this node, or another one, may crash of it. */
void fault_point(struct world *world, uint32_t node);
/* Whether the process that has done a step is to die of it. */
bool fault_is_due(struct world *world);

#endif
