/*
 * fd_note.h - what a restart has to know of the application's descriptors, noted while it stands still.
 *
 * A line takes some microseconds for each. So what cannot have changed since the line before is not asked
 * again, and memory that is saved is written only where it changes: the rest is no part of the line.
 */
#ifndef BELAY_MPI_LAYER_LOWER_FD_NOTE_H
#define BELAY_MPI_LAYER_LOWER_FD_NOTE_H

/* Note all in struct vk. */
void fd_note_all(void);

/* Call for each open descriptor of either half, in ascending order. */
void fd_for_each(void (*visit)(int fd));

/*
 * What this launch has given the rank, before the program has anything open: standard streams are no files,
 * but streams (FD_STREAM); a socket on which Slurm listens is none of the program's.
 */
void fd_note_launch(void);

#endif
