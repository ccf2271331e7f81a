/*
 * arena.h - memory of the MPI layer, in the upper half and hence saved.
 *
 * Not malloc: a line may interrupt the application inside malloc, and the drain needs memory then. One
 * thread at a time (the one that calls MPI).
 */
#ifndef BELAY_MPI_LAYER_UPPER_ARENA_H
#define BELAY_MPI_LAYER_UPPER_ARENA_H

#include <stddef.h>

/* Zeroed memory, aligned to 16 bytes. NULL when the system has none left. */
void *arena_alloc(size_t bytes);
/* Give back what arena_alloc() returned; NULL is accepted. */
void arena_free(void *block);

/*
 * Ballast: 8 MiB of address space that are held back, without memory behind them. A drain gives the ballast
 * up while it lasts, so that its records, and those of the library, find room in a process that has come to
 * its limit (RLIMIT_AS). Taking the ballast back may fail silently; the next drain then lacks it.
 */
void arena_take_ballast(void);
void arena_drop_ballast(void);

#endif
