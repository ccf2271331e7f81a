/*
 * way.h - the way of a member's blocks into a holder's parity (coord/parity.h): which of them go there, where
 * they belong, and the coefficient that they are multiplied by. Pure.
 */
#ifndef BELAY_NODE_AGENT_REDUNDANCY_WAY_H
#define BELAY_NODE_AGENT_REDUNDANCY_WAY_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/parity.h"

/* Which blocks of a member go to a holder, both by position in their set: context of way_route(). */
struct way {
    struct parity_code code;
    uint32_t home, holder;
};

/*
 * A block of data (address / PARITY_BLOCK_BYTES) goes to each holder of its codeword, once: fills *to_block,
 * its place among the holder's blocks, and *coefficient with 1, since the holder multiplies. False: it does
 * not go there. (A share_map_f, node-agent/member/share.h.)
 */
bool way_route(const void *context, uint64_t block, uint64_t *to_block, uint8_t *coefficient);
/* The coefficient of what comes along such a way for an address in the holder's parity; 0: it does not belong
 * there. */
uint8_t way_weigh(const struct way *way, uint64_t address);

#endif
