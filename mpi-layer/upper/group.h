/* group.h - groups: their members, so that a restart can make them again. */
#ifndef BELAY_MPI_LAYER_UPPER_GROUP_H
#define BELAY_MPI_LAYER_UPPER_GROUP_H

#include "mpi-layer/upper/handle.h"

/*
 * Before parking: note the members of one that is new (false: out of memory). After a restart: make the real
 * group again.
 */
bool group_note(struct handle *group);
void group_restore(struct handle *group);

#endif
