/*
 * partner.h - PARTNER: each image is where its rank runs, and a copy of it on the next member.
 */
#ifndef BELAY_NODE_AGENT_REDUNDANCY_PARTNER_H
#define BELAY_NODE_AGENT_REDUNDANCY_PARTNER_H

#include "node-agent/redundancy/redundancy.h"

/* At least two members. NULL with ENOMEM. */
struct redundancy *partner_create(const struct redundancy_epoch *epoch, const struct redundancy_ops *ops,
                                  void *context);

#endif
