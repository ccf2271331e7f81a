/*
 * rebuild.h - MPI objects across a restart: facts that only the library knows are noted before the image is
 * taken; after a restart all objects are made again in the new library.
 */
#ifndef BELAY_MPI_LAYER_UPPER_REBUILD_H
#define BELAY_MPI_LAYER_UPPER_REBUILD_H

#include <stdbool.h>
#include <stdint.h>

/* Before parking. False: an object cannot be noted, and line_fail() was called with the reason. */
bool rebuild_note(uint64_t line);

/* In the restarted process, MPI_Init being done: all handles are valid again, pending receives posted. */
void rebuild_all(uint64_t line);

#endif
