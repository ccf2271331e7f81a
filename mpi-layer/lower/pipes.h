/*
 * pipes.h - pipes with both ends in the program, or whose other end nobody has any more: made again with what
 * they held. One that several ranks have is the agent's to make again (shares.h).
 */
#ifndef BELAY_MPI_LAYER_LOWER_PIPES_H
#define BELAY_MPI_LAYER_LOWER_PIPES_H

#include <stdbool.h>

#include "mpi-layer/lower/gate.h"

/* Is it one of the kinds of this file? */
bool pipes_has(enum fd_kind kind);
/* Which of them: of a record whose flags and identity are noted, and its path as the kernel tells it. */
enum fd_kind pipes_kind(const struct fd_record *record, const char *path);

/* Note what the pipe of one end holds, as special_note() does. */
void pipes_note(struct fd_record *record);

/* When all are noted: tell the agent of a pipe that other ranks may have, too. */
void pipes_note_share(const struct fd_record *record);

/* Make it again. False: its other end is not in the program. */
bool pipes_restore(const struct fd_record *record);

/* What is looked up by the two above has to be forgotten when the notes change, and when all are restored. */
void pipes_forget(void);

#endif
