/* stand.h - how long the program stands still for a line. */
#ifndef BELAY_MPI_LAYER_UPPER_STAND_H
#define BELAY_MPI_LAYER_UPPER_STAND_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The program stands still for the line in progress from here on (or from a time on, in ns), until it goes
 * on. The two nest: what begins while it stands already returns false, and is not ended.
 */
bool stand_begin(void);
bool stand_begin_at(uint64_t now_ns);
void stand_end(void);

/* After a restart: what stood still was another process, by its own clock. */
void stand_forget(void);

/* The line is over: stand_tell() is to tell the agent how long the rank stood, its last word about the line.
 */
void stand_tell_of(uint64_t line);
void stand_tell(void);

#endif
