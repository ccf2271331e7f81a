/*
 * refill.h - after a restart: what this node has to hold of the line that the ranks have gone on from, for
 * ranks of other nodes, and lacks: copies, tables and parity. It is made while the ranks run, of the images
 * where they run, so that the loss of a node is survived again before the next line (docs/parity.md, "After
 * a loss").
 *
 * A line makes all of it anew in any case: while one is in progress, nothing is asked for. All functions are
 * called from the agent's loop.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_REFILL_H
#define BELAY_NODE_AGENT_MEMBER_REFILL_H

#include <stdint.h>

#include "node-agent/member/gather.h"
#include "node-agent/member/mirror.h"

struct refill;

/* This node holds all that it has to of its committed line, and so does its parity set. */
typedef void refilled_f(void *context, uint64_t line);

/* For an epoch with other members, which get from now on what they ask for. gatherer: NULL without parity;
 * borrowed. NULL with ENOMEM. */
struct refill *refill_create(const struct mirror_epoch *epoch, struct gatherer *gatherer, refilled_f *done,
                             void *context);
/* Accepts NULL. */
void refill_destroy(struct refill *refill);

/* No line is in progress: begin, or go on. done() follows, once for a line. Accepts NULL. */
void refill_go_on(struct refill *refill);
/* A line begins. What is on its way is dropped. Accepts NULL. */
void refill_rest(struct refill *refill);

#endif
