/*
 * coord_clock.h - the clock of one communicator, as coordinator and agents exchange it.
 */
#ifndef BELAY_COMMON_WIRE_COORD_CLOCK_H
#define BELAY_COMMON_WIRE_COORD_CLOCK_H

#include <stdint.h>

/*
 * The number of collectives entered or initiated on a communicator; in the words of members also how many of
 * its members that stands for. In an order, a size says that all members had been counted where the target
 * was made: it is of no use where none of them have been.
 */
struct coord_clock {
    uint64_t comm;
    uint64_t seq;
    uint32_t seen; /* members whose clocks are not larger than seq, and counted in it */
    uint32_t size; /* all members, 0: not known, or in an order not counted */
};

#endif
