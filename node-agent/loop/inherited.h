/*
 * inherited.h - what the agent has from whoever started it: a shell, a launcher, or a rank, with limits and
 * settings that were meant for one job. It serves many, and outlives them. docs/security.md has the list.
 */
#ifndef BELAY_NODE_AGENT_LOOP_INHERITED_H
#define BELAY_NODE_AGENT_LOOP_INHERITED_H

#include <stddef.h>

#include "common/util/error.h"

/*
 * Once, at the very beginning. Descriptors beyond the standard ones are closed, and closed standard ones
 * filled; signals have their default effect, or none where that would end us for another's reasons; limits
 * are as high as they may be; the working directory is the root, and so on. What the agent starts has it all
 * from here. Returns 0, or -1 with err: a limit leaves no room for any image.
 */
int inherited_shed(struct belay_error *err);

/* A limit that the agent will meet in time, in words for a user; "": none. */
void inherited_warning(char *text, size_t room);

/* Start as many threads at once and end them. Returns 0, or -1 with err: so many are not allowed. */
int inherited_try_threads(unsigned count, struct belay_error *err);

#endif
