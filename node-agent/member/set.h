/*
 * set.h - this node's place in the parity set of an epoch (coord/parity.h): which node and which rank is at a
 * position, and where blocks of an image go in a holder's parity.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_SET_H
#define BELAY_NODE_AGENT_MEMBER_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/epoch.h"
#include "coord/parity.h"
#include "node-agent/member/mirror.h"

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

/* Which blocks of a member go to a holder, both by position: context of set_route(). */
struct set_way {
    struct parity_code code;
    uint32_t home, holder;
};
/* A share_map_f (share.h): a block of data goes to each holder of its codeword, once. */
bool set_route(const void *context, uint64_t block, uint64_t *to_block, uint8_t *coefficient);
/* The coefficient of what comes along such a way for a place in the holder's parity; 0: it does not belong
 * there. */
uint8_t set_weigh(const struct set_way *way, uint64_t address);

#endif
