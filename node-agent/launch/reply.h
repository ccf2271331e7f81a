/*
 * reply.h - what a rank and the arbiter are answered, put together.
 */
#ifndef BELAY_NODE_AGENT_LAUNCH_REPLY_H
#define BELAY_NODE_AGENT_LAUNCH_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/verdict.h"
#include "node-agent/job/job.h"
#include "node-agent/loop/connection.h"

void reply_welcome(struct connection *connection, const struct job *job, uint32_t epoch,
                   uint64_t restore_line, const int *fds, unsigned fd_count);
/* To a rank that is restored: fd (duplicated), or kernel_id. Both -1: the shared object is missing, an error.
 */
void reply_share(struct connection *connection, int kernel_id, int fd);
/* What the verdict on a launch is to be based on; all is borrowed. */
struct launch_facts {
    const struct verdict_rank *ranks; /* that said hello */
    uint32_t count;
    bool is_stopped;
    const char *refused, *turned_away; /* "": nobody was */
    uint64_t newest_line;              /* that the next epoch may go on from, 0: none */
};
void reply_facts(struct connection *connection, const struct launch_facts *facts);

#endif
