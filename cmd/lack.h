/*
 * lack.h - why a job cannot go on from what its nodes hold: which ranks' images are missing, and where the
 * others are.
 */
#ifndef BELAY_CMD_LACK_H
#define BELAY_CMD_LACK_H

#include <stddef.h>
#include <stdint.h>

#include "coord/epoch.h"

/*
 * states: by node, as they have answered; NULL: the node has not. record: the newest epoch. Writes one part
 * of a sentence about the line that was to be gone on from: "of line 7, no node holds the images of ranks 2-3
 * any more; nodes 0, 3 hold those of ranks 0-1, 4-7".
 */
void lack_tell(const struct epoch_start *record, const struct epoch_state *const *states, uint32_t node_count,
               char *text, size_t size);

#endif
