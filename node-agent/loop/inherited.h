/*
 * inherited.h - sheds the limits and settings that the agent has from its parent: a shell, a launcher or a
 * rank. They were meant for one job, and the agent serves many. docs/security.md has the list.
 */
#ifndef BELAY_NODE_AGENT_LOOP_INHERITED_H
#define BELAY_NODE_AGENT_LOOP_INHERITED_H

#include <stddef.h>

#include "common/util/error.h"

/*
 * Call once, first of all. Closes descriptors beyond the standard ones, and opens missing standard ones on
 * /dev/null; gives signals their default effect, or ignores those that would end the agent for reasons of its
 * parent; raises limits as far as allowed; makes / the working directory, and so on. Processes that the agent
 * starts inherit all of this. Returns 0, or -1 with err: a limit leaves no room for any image.
 */
int inherited_shed(struct belay_error *err);

/* A message for the user about a limit that will end the agent later (processor time); "": none. */
void inherited_warning(char *text, size_t room);

/* Start `count` threads at once and end them. Returns 0, or -1 with err: the limits do not allow so many. */
int inherited_try_threads(unsigned count, struct belay_error *err);

#endif
