/*
 * fd_note.h - what a restart has to know of the application's descriptors, noted while it stands still.
 *
 * A line takes some microseconds for each. So what cannot have changed since the line before is not asked
 * again, and memory that is saved is written only where it changes: the rest is no part of the line.
 */
#ifndef BELAY_MPI_LAYER_LOWER_FD_NOTE_H
#define BELAY_MPI_LAYER_LOWER_FD_NOTE_H

#include <stdbool.h>
#include <stddef.h>

#include "mpi-layer/lower/gate.h"

/* Note all in struct vk. */
void fd_note_all(void);

/* Call for each open descriptor of either half, in ascending order. */
void fd_for_each(void (*visit)(int fd));

/* What this launch has given the rank as standard streams is no file, but a stream (FD_STREAM). */
void fd_note_streams(void);

/*
 * Inside, while a descriptor is noted: room for `bytes` more of its details, in memory that may move with the
 * next call (NULL: none); so many of them are used; what was noted of it at the line before, if it stands for
 * the same thing since (NULL: it does not).
 */
char *fd_note_reserve(size_t bytes);
void fd_note_commit(struct fd_record *record, size_t bytes);
const struct fd_record *fd_note_before(const struct fd_record *record, const char **details);

/* Inside, too: a descriptor of the program that stands for this; -1: there is none. */
int fd_note_find(uint64_t device, uint64_t inode);
/* ... the next one behind `fd` (-1: the first) that stands for the device with this number; -1: none. */
int fd_note_next_device(int fd, uint64_t rdev);

/*
 * Inside, too: the beginning of what /proc/self/fdinfo tells of a descriptor, as far as `room` bytes hold it,
 * a NUL at its end included. All of it comes with one read. Returns its length.
 */
size_t fd_note_info(int fd, char *text, size_t room);

/* Of a record in struct vk. */
static inline const char *fd_path(const struct fd_record *record)
{
    return VK->fd_text + record->path;
}

#endif
