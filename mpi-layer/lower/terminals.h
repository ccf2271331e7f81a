/*
 * terminals.h - pseudo terminals whose master the program has open: made again with both sides, under the
 * same number if that is free, with their settings and what nobody has read yet.
 *
 * Between the sides are queues that nobody can look into. So what is in them is taken out at a line and put
 * in again, which needs a descriptor of the slave in the program; and of terminals that other processes use
 * (they have a session there) it is left alone.
 */
#ifndef BELAY_MPI_LAYER_LOWER_TERMINALS_H
#define BELAY_MPI_LAYER_LOWER_TERMINALS_H

#include <stdbool.h>

#include "mpi-layer/lower/gate.h"

/*
 * A device, when all descriptors are known: if it is the master of a pseudo terminal, or a slave whose master
 * is in the program or closed for good, its kind becomes FD_TERMINAL, and its state is noted, as
 * special_note() does.
 */
void terminals_note(struct fd_record *record);

/* Make it again, the master before its slaves. False: that is impossible. `messages`: where to say so. */
bool terminals_restore(const struct fd_record *record, int messages);

/* All are restored: a slave that only processes had that are gone is closed. */
void terminals_restore_end(void);

#endif
