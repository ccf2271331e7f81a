/*
 * terminals.h - pseudo terminals whose master the program has open: made again with both sides, under the
 * same number if that is free, with their settings and what nobody has read yet.
 *
 * No call shows the queues between the two sides. So their contents are taken out at a line and put in again,
 * which needs a descriptor of the slave in the program. The queues of a terminal that other processes use
 * (it has a session) are left alone.
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

/* All are restored: close each slave that only processes had open that are gone. */
void terminals_restore_end(void);

#endif
