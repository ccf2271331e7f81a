/*
 * limits.h - resource limits that the program has changed: noted at a line, set again after a restart. Limits
 * that it has not changed are those of the new launch.
 */
#ifndef BELAY_MPI_LAYER_LOWER_LIMITS_H
#define BELAY_MPI_LAYER_LOWER_LIMITS_H

/* Before the program runs for the first time. */
void limits_begin(void);
/* The rank parks. */
void limits_note(void);
/* Everything else is back. A limit that this user may not set is set as far as he may. */
void limits_restore(void);

#endif
