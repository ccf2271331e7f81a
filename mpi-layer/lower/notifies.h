/*
 * notifies.h - inotify descriptors: what they watch is noted at a line, and watched again after a restart,
 * under the same numbers. Events that the program had not read are lost, which one line says.
 */
#ifndef BELAY_MPI_LAYER_LOWER_NOTIFIES_H
#define BELAY_MPI_LAYER_LOWER_NOTIFIES_H

#include <stdbool.h>

#include "mpi-layer/lower/gate.h"

/* Around the notes of all descriptors. */
void notifies_begin(void);
void notifies_end(void);

/* False: something that it watches has no path (any more), so a restart could not watch it. */
bool notifies_note(struct fd_record *record);

/* False: what it watched cannot be watched again. Lines for the user go to `messages`. */
bool notifies_restore(const struct fd_record *record, int messages);

#endif
