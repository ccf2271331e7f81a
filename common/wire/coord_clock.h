/*
 * coord_clock.h - the clock of one communicator, as coordinator and agents exchange it.
 */
#ifndef BELAY_COMMON_WIRE_COORD_CLOCK_H
#define BELAY_COMMON_WIRE_COORD_CLOCK_H

#include <stdint.h>

/* The number of collectives entered or initiated on a communicator. */
struct coord_clock {
    uint64_t comm;
    uint64_t seq;
};

#endif
