/*
 * silence.h - nodes whose agents other agents do not hear: which one is asked, waited for, and given up.
 *
 * That a link is silent, or has not joined, is a hint and no proof. So the agent at its other end is asked.
 * One that does not answer in time is ended: what it holds is with its keeper, for the next agent of the
 * node. One that answers is there: a link that has not joined gets more time, and one that was lost costs the
 * launch, since the links of an epoch are made as it is opened. All that is told to the user.
 */
#ifndef BELAY_CMD_SILENCE_H
#define BELAY_CMD_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/calls.h"
#include "cmd/nodes.h"
#include "common/wire/states.h"

#define SILENCE_STALL_MS 5000 /* before agents tell of it (the fabric's stall time) */

enum silence_verdict {
    SILENCE_BEARABLE = 0,
    SILENCE_OF_LINK,  /* the launch is to be ended, for another epoch */
    SILENCE_OF_AGENT, /* its process has been killed */
};

/* Does the agent answer within some seconds? Signals wait meanwhile. */
bool silence_answers(const struct caller *agent);

/* A launch begins: nothing is wrong. */
void silence_begin(const struct nodes *nodes);
/*
 * The agent of the node `by` tells of its link to `node`, whose agent is `agent`. Waits for an answer of it,
 * some seconds at most.
 */
enum silence_verdict silence_take(struct node *node, const struct caller *agent, uint32_t by,
                                  enum link_state state);
/* When a link is to have joined, in milliseconds of CLOCK_MONOTONIC; 0: none is late. */
long long silence_due_ms(const struct nodes *nodes);
/* Is it too late for the node's links? Said once. */
enum silence_verdict silence_expire(struct node *node);

#endif
