/*
 * moves.h - pages that mremap() has put to another place, for trackers that do not tell them.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_MOVES_H
#define BELAY_NODE_AGENT_CAPTURE_MOVES_H

#include "common/image/runs.h"
#include "common/wire/control.h"

/*
 * Add to `dirty` the present pages that mremap() has moved to their addresses since the first *seen moves. If
 * the process has not kept a record of all these moves, add every present page. *seen becomes the number of
 * moves now. Returns 0, or -1 with ENOMEM.
 */
int moves_add(const struct control_moves *moves, uint32_t *seen, const struct run_set *present,
              struct run_set *dirty);

#endif
