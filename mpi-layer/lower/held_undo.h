/*
 * held_undo.h - held files (held.h) are put back to what they were at the line, from the journal that came
 * with them (vk_held.h).
 */
#ifndef BELAY_MPI_LAYER_LOWER_HELD_UNDO_H
#define BELAY_MPI_LAYER_LOWER_HELD_UNDO_H

#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"

/*
 * All that the journal, which is fds[0], holds behind journal_bytes is undone in the files that the others
 * stand for, the latest first, and the journal is as long as it was. Returns 0, or -1 with err.
 */
int held_undo(const int *fds, size_t count, uint64_t journal_bytes, struct belay_error *err);

#endif
