/*
 * reply.h - what a rank and the arbiter are answered, put together.
 */
#ifndef BELAY_NODE_AGENT_LAUNCH_REPLY_H
#define BELAY_NODE_AGENT_LAUNCH_REPLY_H

#include <stdint.h>

#include "coord/verdict.h"
#include "node-agent/job/job.h"
#include "node-agent/launch/epoch.h"
#include "node-agent/loop/connection.h"

void reply_welcome(struct connection *connection, const struct job *job, uint32_t epoch,
                   uint64_t restore_line, const int *fds, unsigned fd_count);
/* To a rank that is restored: fd (duplicated), or kernel_id; both -1: it is not there, an error. */
void reply_share(struct connection *connection, int kernel_id, int fd);
/* How an epoch has ended: its ranks, as the verdict is to be based on. */
void reply_facts(struct connection *connection, const struct epoch *epoch, const struct verdict_rank *ranks,
                 uint32_t count);

#endif
