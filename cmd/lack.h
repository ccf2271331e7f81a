/*
 * lack.h - why a job does not go on from what its nodes hold: which ranks' images are missing, and where the
 * others are.
 */
#ifndef BELAY_CMD_LACK_H
#define BELAY_CMD_LACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coord/epoch.h"
#include "coord/spread.h"

/*
 * states: by node, as they have answered; NULL: the node has not. record: the newest epoch. Writes one part
 * of a sentence about the line that was to be gone on from: "of line 7, no node holds the images of ranks 2-3
 * any more; nodes 0, 3 hold those of ranks 0-1, 4-7". With parity it says that what is left does not suffice
 * to make them again.
 */
void lack_tell(const struct epoch_start *record, const struct epoch_state *const *states, uint32_t node_count,
               enum scheme scheme, char *text, size_t size);

/*
 * The same of a job that could go on: "of line 7, nodes 0, 3 hold the images of ranks 0-7". Returns whether
 * there is a line.
 */
bool lack_tell_held(const struct epoch_start *record, const struct epoch_state *const *states,
                    uint32_t node_count, char *text, size_t size);

/*
 * Of a job that could go on, but for memory: how much a rank needs, and how much the nodes have. "rank 3
 * needs 32.0 MiB of memory, and as much for its image where that is not held; node 0 has 12.0 MiB, 1.0 MiB of
 * it for images, node 2 has 20.0 MiB".
 */
void lack_tell_memory(const struct spread_lack *lack, const struct epoch_state *const *states,
                      uint32_t node_count, char *text, size_t size);

#endif
