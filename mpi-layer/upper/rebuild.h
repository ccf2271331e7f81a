/*
 * rebuild.h - MPI objects across a restart: what only the library knows is noted before the image is
 * taken; afterwards a fresh library gets everything again.
 */
#ifndef BELAY_MPI_LAYER_UPPER_REBUILD_H
#define BELAY_MPI_LAYER_UPPER_REBUILD_H

#include <stdbool.h>
#include <stdint.h>

/* Before parking. False: something cannot be noted, and line_fail() has been told what. */
bool rebuild_note(uint64_t line);

/* In the restarted process, MPI_Init being done: all handles are valid again, pending receives posted. */
void rebuild_all(uint64_t line);

#endif
