/*
 * special.h - descriptors that no path leads to: eventfd, timerfd, signalfd, epoll, pipes with both ends in
 * the program or without another end, files without a name. Their state is noted as the kernel tells it
 * (proc(5), fdinfo).
 */
#ifndef BELAY_MPI_LAYER_LOWER_SPECIAL_H
#define BELAY_MPI_LAYER_LOWER_SPECIAL_H

#include <stdbool.h>

#include "common/util/error.h"
#include "mpi-layer/lower/gate.h"

/* Note the state that a restart needs of the record's descriptor (fd_note.h); nothing for other kinds. */
void special_note(struct fd_record *record, const char *path);

/* When all descriptors are noted: those that other ranks may share, or that a restart cannot make again
 * (shares.h). */
void special_note_shares(void);

/* A file without a name that ranks share: the agent has made it again for all of them. False: it has not. */
bool special_restore_shared(const struct fd_record *record);
/*
 * Make the descriptor again at its number; the caller sets its flags. False: it is of another kind, or its
 * other end is not in the program. `messages`: the descriptor for lines to the user.
 */
bool special_restore(const struct fd_record *record, int messages);

/* When no file of the program's will be closed any more: take again all locks. Returns 0 or -1 with err. */
int special_restore_locks(struct belay_error *err);

/* All descriptors are made again: tell every epoll descriptor what it watches. */
void special_restore_end(void);

#endif
