/*
 * topology.h - process topologies. The library's result of a call (its order of ranks, the neighbours of this
 * rank) is read back, so that a restart makes the same topology, even if the library would choose another.
 */
#ifndef BELAY_MPI_LAYER_UPPER_TOPOLOGY_H
#define BELAY_MPI_LAYER_UPPER_TOPOLOGY_H

#include <stdbool.h>

struct topology; /* arena_free() it */

/* The topology of a real communicator, NULL: none. False: out of memory. */
bool topology_note(void *real, struct topology **topology);

/*
 * Collective over a real communicator with the recorded members in the recorded order: one with the topology,
 * in its place.
 */
void *topology_restore(const struct topology *topology, void *real);

#endif
