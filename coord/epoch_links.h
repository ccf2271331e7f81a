/*
 * epoch_links.h - which members of an epoch speak with one another: parent and child in the tree, partners,
 * members of one set (parity.h), and members of which one fetches images, or shares in one, from the other.
 */
#ifndef BELAY_COORD_EPOCH_LINKS_H
#define BELAY_COORD_EPOCH_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/epoch.h"
#include "coord/tree.h"

/* Of two members, by their indices; not of a member with itself. */
bool epoch_links_has(const struct epoch_start *start, enum scheme scheme, struct parity_code code,
                     const struct tree *tree, uint32_t one, uint32_t other);

#endif
