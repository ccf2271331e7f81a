/*
 * domains.h - failure domains: nodes that may be lost together, such as those of a rack or of a power supply.
 *
 * The redundancy scheme keeps a member's copies on the next member of the epoch's list (scheme_partner()). So
 * the order of the list decides whether copies are in another domain than their images. Pure.
 */
#ifndef BELAY_COORD_DOMAINS_H
#define BELAY_COORD_DOMAINS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether each of these nodes is followed by one of another domain, the last one by the first. domains: by
 * node, any numbers.
 */
bool domains_are_apart(const uint32_t *nodes, uint32_t count, const uint32_t *domains);

/*
 * The domain that has more than half of the nodes, so that they cannot all be followed by a node of another
 * one. Returns how many nodes it has, 0: there is no such domain.
 */
uint32_t domains_find_large(const uint32_t *nodes, uint32_t count, const uint32_t *domains, uint32_t *domain);

/*
 * Bring the nodes into an order in which they are apart, if there is one. An order that is right stays as it
 * is, and so does one that cannot be. order[i]: which of the nodes is at place i then. room: as many numbers
 * as order.
 */
void domains_arrange(const uint32_t *nodes, uint32_t count, const uint32_t *domains, uint32_t *order,
                     uint32_t *room);

#endif
