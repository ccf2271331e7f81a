/*
 * heard.h - leases that bind one another: no node is given one later than the length of a lease after the
 * newest that any other node has told to have got. So a node that hears nothing any more knows when the last
 * lease of all was given at the latest: one length after the newest that it has got itself. Pure.
 *
 * Without it a node that is cut off could not tell for how long an arbiter, cut off as well, has given leases
 * to nodes on its own side.
 */
#ifndef BELAY_CMD_HEARD_H
#define BELAY_CMD_HEARD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/placement.h"

/* Zeroed at first. Times are those of one clock of the arbiter's host. */
struct heard {
    uint64_t given_ns[PLACEMENT_NODES_MAX]; /* when the newest lease was given that the node has told to have;
                                             * 0: it has asked for none */
};

/* A node asks for a lease, and tells when the newest was given that it has (0: none). May it be given one? */
bool heard_take(struct heard *heard, uint32_t node, uint64_t told_ns, uint64_t now_ns, uint64_t lease_ns);

#endif
