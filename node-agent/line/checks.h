/*
 * checks.h - the answer to `belay verify`.
 */
#ifndef BELAY_NODE_AGENT_LINE_CHECKS_H
#define BELAY_NODE_AGENT_LINE_CHECKS_H

#include <stdint.h>

#include "node-agent/job/job.h"
#include "node-agent/member/verify.h"

/* What has been found of this node's parts; err NULL: all have been looked at. */
void checks_answer(struct connection *connection, const struct job *job, const struct verified *list,
                   uint32_t count, const struct belay_error *err);

#endif
