/*
 * witness.h - a check of captures for tests: the memory of a rank that stands still is copied once more,
 * whole and by no tracker, and what the line's capture makes of the image must be the same, page by page.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_WITNESS_H
#define BELAY_NODE_AGENT_MEMBER_WITNESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/util/error.h"

struct witness;

/* Is a capture of this rank and line to be checked (the fault point agent.witness)? */
bool witness_is_wanted(uint32_t rank, uint64_t line);

/*
 * Copy all memory of the process, which stands still. layout: the place of its lower half; header, program:
 * as for the capture. Blocks. NULL with err.
 */
struct witness *witness_take(pid_t pid, const struct layout *layout, const struct image_header *header,
                             const char *program, struct belay_error *err);
/* Accepts NULL. */
void witness_destroy(struct witness *witness);

/*
 * Is the image that `part` is, or that it makes of `base` (-1: none), what the witness has seen? Pages of
 * zeros and pages that are not there are the same. Left out are a few pages around the stack pointer of each
 * thread, where it waits meanwhile. A buffer whose message comes while the rank stands still (the MPI library
 * receives what was posted) may be older in one of the two: a check is for programs that have none. Returns
 * 0, or -1 with err (EILSEQ: it is not).
 */
int witness_compare(const struct witness *witness, int part, int base, struct belay_error *err);

#endif
