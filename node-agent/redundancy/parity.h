/*
 * parity.h - parity: each image is where its rank runs, and sets of members hold parity of the images
 * (coord/parity.h, docs/parity.md).
 */
#ifndef BELAY_NODE_AGENT_REDUNDANCY_PARITY_H
#define BELAY_NODE_AGENT_REDUNDANCY_PARITY_H

#include "coord/parity.h"
#include "node-agent/redundancy/redundancy.h"

/* At least two members, and a code with parity. NULL with ENOMEM. */
struct redundancy *parity_create(const struct redundancy_epoch *epoch, struct parity_code code,
                                 const struct redundancy_ops *ops, void *context);

#endif
