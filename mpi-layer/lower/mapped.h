/*
 * mapped.h - files that are mapped shared: the program writes to them without any call, so they are noted at
 * each line.
 */
#ifndef BELAY_MPI_LAYER_LOWER_MAPPED_H
#define BELAY_MPI_LAYER_LOWER_MAPPED_H

#include "common/util/file_id.h"

/*
 * Note (vk_undo.h) the whole of every file that is mapped shared and writable. Called when the rank goes on
 * after a line, or was restored: a rank notes such a file before it writes to it. Lower FS.
 */
void mapped_note_files(void);

/* At a line: note which files are mapped shared, in struct vk. Returns NULL, or why that cannot be done. */
const char *mapped_note_identities(void);

/* The file that was mapped shared by this path, as noted; NULL: none. */
const struct file_id *mapped_identity(const char *path);

#endif
