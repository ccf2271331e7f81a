/*
 * shares.h - what the rank may share with others (common/wire/shares.h): noted at a line, got back from the
 * agent at a restart.
 */
#ifndef BELAY_MPI_LAYER_LOWER_SHARES_H
#define BELAY_MPI_LAYER_LOWER_SHARES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"
#include "common/wire/shares.h"
#include "mpi-layer/lower/rank.h"

/* Park: first forget what was noted before; then each thing that a descriptor refers to; then tell the agent.
 */
void shares_begin(void);
void shares_note(const struct share_note *note);
void shares_end(struct control *control);

/*
 * A restart begins: `rank` has the connection to the agent, and the new ids of System V objects, which are
 * taken over. Returns 0 or -1 with err.
 */
int shares_restore_begin(const struct rank *rank, struct belay_error *err);

/*
 * A descriptor of the file, pipe or eventfd that had this identity at the line; valid until the next call. -1
 * with err.
 */
int shares_file(uint32_t kind, uint64_t device, uint64_t inode, struct belay_error *err);
/* The kernel's id of the segment that had this one at the line. -1 with err. */
int shares_segment(uint64_t inode, struct belay_error *err);

/* The rank has all shared objects. Set again what the kernel does with semaphores when the process ends. */
int shares_restore_end(struct belay_error *err);
/* All ranks have theirs: seal the files again that were sealed; a file goes with the last rank that has it.
 */
int shares_let_go(struct belay_error *err);

#endif
