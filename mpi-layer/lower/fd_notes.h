/*
 * fd_notes.h - the table of the application's descriptors: a record of each, and its texts. The table is made
 * at each line in memory that is not saved, beside the table of the line before, and then published in struct
 * vk.
 */
#ifndef BELAY_MPI_LAYER_LOWER_FD_NOTES_H
#define BELAY_MPI_LAYER_LOWER_FD_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mpi-layer/lower/gate.h"

/* A new line: the table is empty. */
void fd_notes_begin(void);

/* A new record, all zero, behind the others. Descriptors come in ascending order. NULL: out of memory. */
struct fd_record *fd_notes_add(void);

/* All records, in memory that moves with fd_notes_add(). */
struct fd_record *fd_notes_records(size_t *count);

/* All texts, in memory that moves with fd_notes_reserve(). */
const char *fd_notes_text(void);

/*
 * reserve: room for `bytes` more of texts, in memory that may move with the next call (NULL: none).
 * commit: so many of these bytes are used for details of the descriptor, or for its path.
 */
char *fd_notes_reserve(size_t bytes);
void fd_notes_commit(struct fd_record *record, size_t bytes);
void fd_notes_commit_path(struct fd_record *record, size_t bytes);

/*
 * What was noted of a descriptor at the line before, if it stands for the same thing since (NULL: it does
 * not): its record, details and path. Descriptors are asked for in ascending order; fd_notes_rewind() begins
 * a second pass.
 */
struct fd_note_before {
    const struct fd_record *record;
    const char *details, *path;
};
bool fd_notes_before(const struct fd_record *record, struct fd_note_before *old);
void fd_notes_rewind(void);

/* A descriptor of the program that stands for this file; -1: there is none. */
int fd_notes_find(uint64_t device, uint64_t inode);
/* The next one behind `fd` (-1: the first) that stands for the device with this number; -1: none. */
int fd_notes_next_device(int fd, uint64_t rdev);

/* The table is complete: into struct vk. */
void fd_notes_publish(void);

#endif
