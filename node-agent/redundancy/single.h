/*
 * single.h - SINGLE: each image is where its rank runs, and nowhere else.
 */
#ifndef BELAY_NODE_AGENT_REDUNDANCY_SINGLE_H
#define BELAY_NODE_AGENT_REDUNDANCY_SINGLE_H

#include "node-agent/redundancy/redundancy.h"

/* NULL with ENOMEM. */
struct redundancy *single_create(const struct redundancy_epoch *epoch, const struct redundancy_ops *ops,
                                 void *context);

#endif
