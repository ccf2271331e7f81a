/*
 * set.h - this node's place in the parity set of an epoch (coord/parity.h): which node and which rank is at a
 * position.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_SET_H
#define BELAY_NODE_AGENT_MEMBER_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/epoch.h"
#include "coord/parity.h"
#include "node-agent/member/mirror.h"
#include "node-agent/redundancy/way.h"

struct set {
    uint32_t *members, *placement; /* of the epoch */
    uint32_t world;                /* ranks of the job */
    uint32_t own;                  /* index of this node */
    struct parity_set of;
};

/* Returns 0 or -1 with ENOMEM. */
int set_init(struct set *set, const struct mirror_epoch *epoch);
void set_release(struct set *set);

/* The node at a position. */
uint32_t set_node(const struct set *set, uint32_t position);
/* The rank in a slot of the node at a position; EPOCH_NOBODY: it has none. */
uint32_t set_rank(const struct set *set, uint32_t position, uint32_t slot);
/* EPOCH_NOBODY: the node is not of this set. */
uint32_t set_position(const struct set *set, uint32_t node);
/* What this node's parity of a slot is of, without lines. */
struct parity_holding set_holding(const struct set *set, uint32_t slot);

#endif
