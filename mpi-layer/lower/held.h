/*
 * held.h - files that the application has open and that no path leads to: without a name, under another one
 * than they were opened by, not to be opened any more. They are kept open for a restart.
 *
 * At a line their descriptors are put into the queue of a socket, the rank's parcel, which the agent takes
 * and gives to the restarted rank. What is written to them after the line is noted in a journal, which is the
 * first of them (vk_held.h).
 */
#ifndef BELAY_MPI_LAYER_LOWER_HELD_H
#define BELAY_MPI_LAYER_LOWER_HELD_H

#include <stdbool.h>
#include <stddef.h>

#include "common/util/error.h"
#include "mpi-layer/lower/gate.h"

/* Before the first line: the folder in which the journal is to lie (-1: nothing is noted). */
void held_start(int undo_folder);

/*
 * At a line: all descriptors have been noted, paths begin at `text`. Sets `held` of those that no path leads
 * to, and struct vk's held_cwd. If they cannot be put into a parcel none is set.
 */
void held_note(struct fd_record *records, size_t count, const char *text);

/* In a restart: open the parcel (-1: there is none) and put the files back to what they were at the line. */
int held_open(int parcel, struct belay_error *err);
/* A descriptor of the held file, not to be closed by the caller; -1: there is none. */
int held_fd(uint32_t held);
/* All held files have their descriptors in the program: close ours. */
void held_close(void);

#endif
