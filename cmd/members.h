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
 * The agent of another node, in its own folder: below nodes_dir, which a status tells of, or, if that is NULL
 * or "", of a local one below the run directory. Returns false if there is no such folder; agent.sock is -1
 * if nobody serves it. tool_close() is due on success.
 */
bool members_open(struct tool *node, const struct tool *tool, const char *nodes_dir, uint32_t number);

typedef Belay__Wire__Reply *members_call_f(const struct caller *caller, const char *job,
                                           struct belay_error *err);

/*
 * Make this call of the agent of the first node or, if that agent knows nothing of the job or refers to
 * another node (EREMOTE), of other nodes' agents. The answer, or NULL with the err that tells most.
 */
Belay__Wire__Reply *members_call(const struct tool *tool, const char *job, members_call_f *call,
                                 struct belay_error *err);

/* Add to a job's status what the agents of its other nodes say of it. */
void members_add_status(const struct tool *tool, Belay__Wire__JobStatus *status);

#endif
