/*
 * reply.h - the agent's answers, put together.
 */
#ifndef BELAY_NODE_AGENT_REPLY_H
#define BELAY_NODE_AGENT_REPLY_H

#include <stdint.h>

#include "coord/verdict.h"
#include "node-agent/connection.h"
#include "node-agent/job.h"

void reply_welcome(struct connection *connection, const struct job *job, uint32_t epoch,
                   uint64_t restore_line, const int *fds, unsigned fd_count);
/* To a rank that is restored: fd (duplicated), or kernel_id; both -1: it is not there, an error. */
void reply_share(struct connection *connection, int kernel_id, int fd);
void reply_verdict(struct connection *connection, const struct verdict *verdict, uint64_t newest_line);
void reply_done(struct connection *connection, uint32_t count, const char *text);

/* A line is over: committed (reason NULL), or aborted, which is an error as well. line 0: none began. */
void reply_line_done(struct connection *connection, struct job *job, uint64_t line, const char *reason);

#endif
