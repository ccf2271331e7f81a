/*
 * vk_held.h - held files, to which no path leads at the line (held.h): their changes since the line.
 *
 * The agent puts back the files of the undo log (common/wire/undo.h), which it finds by path and identity. A
 * held file has no path, and its descriptor comes to the restarted rank itself. So the rank notes changes of
 * held files in a journal of its own. The journal is an open file without a name as well, and comes with
 * them. One journal serves all lines: each image tells the journal's length at its line. A restart undoes the
 * entries behind that length, the latest first.
 *
 * Freestanding. With the lock of vk_undo_note.h, or while the application stands still.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_HELD_H
#define BELAY_MPI_LAYER_LOWER_VK_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/file_id.h"

#define VK_HELD_MAGIC 0x646c6568u /* "held" */

/* An entry of the journal, data_bytes of data behind it. */
struct vk_held_entry {
    uint32_t magic;
    uint32_t kind; /* UNDO_LENGTH, UNDO_DATA, UNDO_HOLE, UNDO_ATTRIBUTES, UNDO_UNPROTECTED: as there */
    struct file_id id;
    uint64_t offset, extent, data_bytes;
};

struct vk_undo_note;

/* From now on no file is held / this one is, too. */
void vk_held_clear(void);
void vk_held_add(const struct file_id *id);
bool vk_held_is(const struct file_id *id);

/*
 * The held files were noted for this line. Until it has committed, a restart may go back to the line before,
 * at which they may have had a path: until then (pending) changes have to be noted in the undo log as well.
 */
void vk_held_set_line(uint64_t line);
bool vk_held_is_pending(void);

/* The journal's descriptor, open to be read and appended to; -1: there is none (yet). */
void vk_held_set_journal(long fd);
long vk_held_journal(void);

/* Append a note of a file without a path. Returns 0 or -errno; a part that was written is taken back. */
long vk_held_log(const struct vk_undo_note *note);

#endif
