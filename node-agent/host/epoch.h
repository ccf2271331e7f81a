/*
 * epoch.h - what the host is told of an epoch: its members, by their links, and where its lines begin.
 */
#ifndef BELAY_NODE_AGENT_HOST_EPOCH_H
#define BELAY_NODE_AGENT_HOST_EPOCH_H

#include <stdbool.h>
#include <stdint.h>

#include "node-agent/link/link.h"

/* A member of an epoch, in the order of the epoch's list. */
struct line_host_peer {
    uint32_t node;
    struct link *link;
};

struct line_host_epoch {
    uint32_t number;
    uint32_t node;           /* this one */
    uint32_t ranks;          /* of the world */
    uint64_t committed_line; /* that ranks continue from, 0: none */
    uint64_t last_line;      /* largest number that may have been used */
    const struct line_host_peer *peers;
    uint32_t peer_count; /* at least 1 */
    bool is_tree;        /* there is one peer, the branch of this node, which speaks for all members */
};

#endif
