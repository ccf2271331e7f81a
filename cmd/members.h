/*
 * members.h - a job on several local nodes, as tools see it: each node's agent knows its own ranks, and the
 * coordinator's node knows of the lines.
 */
#ifndef BELAY_CMD_MEMBERS_H
#define BELAY_CMD_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/tool.h"

/*
 * The agent of a local node, in its own run directory. Returns false if there is no such directory;
 * agent.sock is -1 if nobody serves it. tool_close() is due on success.
 */
bool members_open(struct tool *node, const struct tool *tool, uint32_t number);

/* Add to a job's status what the agents of its other nodes say of it. */
void members_add_status(const struct tool *tool, Belay__Wire__JobStatus *status);

#endif
