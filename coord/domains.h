/*
 * domains.h - failure domains: nodes that may be lost together, such as those of a rack or of a power supply.
 *
 * The order of the epoch's list of members decides what a member is protected by: the scheme PARTNER keeps
 * its copies on the next member of the list (scheme_partner()); a scheme of parity makes sets of the list
 * (parity_set_of()). Nodes are *apart* if the loss of a whole domain is survived: each one is followed by a
 * node of another domain, or no set has more nodes of one domain than it may lose. Pure.
 *
 * code: of the scheme; without parity, nodes hold copies.
 */
#ifndef BELAY_COORD_DOMAINS_H
#define BELAY_COORD_DOMAINS_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/parity.h"

/* Whether these nodes, in this order, are apart. domains: by node, any numbers. */
bool domains_are_apart(const uint32_t *nodes, uint32_t count, const uint32_t *domains,
                       struct parity_code code);

/*
 * The domain that has so many of the nodes that they cannot be apart in any order: more than half of them, or
 * more than all sets together may lose. Returns how many nodes it has, 0: there is no such domain.
 */
uint32_t domains_find_large(const uint32_t *nodes, uint32_t count, const uint32_t *domains,
                            struct parity_code code, uint32_t *domain);

/*
 * Bring the nodes into an order in which they are apart, if there is one. An order that is right stays as it
 * is, and so does one that cannot be. order[i]: which of the nodes is at place i then. room: as many numbers
 * as order.
 */
void domains_arrange(const uint32_t *nodes, uint32_t count, const uint32_t *domains, struct parity_code code,
                     uint32_t *order, uint32_t *room);

#endif
