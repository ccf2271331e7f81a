/*
 * places.h - which of an epoch's ranks are on this node: as its arbiter has placed them, or, of a first
 * launch, in blocks over the epoch's members (common/wire/placement.h).
 */
#ifndef BELAY_NODE_AGENT_LAUNCH_PLACES_H
#define BELAY_NODE_AGENT_LAUNCH_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/epoch.h"

/* ranks: of the world. */
bool places_has(const struct epoch_start *start, uint32_t node, uint32_t rank, uint32_t ranks);
uint32_t places_count(const struct epoch_start *start, uint32_t node, uint32_t ranks);

#endif
