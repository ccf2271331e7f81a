/*
 * meet.h - collectives whose participants share no communicator yet (MPI_Comm_create_group,
 * MPI_Intercomm_create), so that there is no clock to count them on.
 *
 * The participants first meet in the upper half, by messages that a line can drain and while waiting for
 * which a rank can park. They meet twice: the first time they learn the id of the new communicator and
 * open its clock; when the second meeting is over, all have done so, and the library's call counts as the
 * first collective on it, with the gate of any other. (Without a clock that all of them show, a line could
 * stop one participant and let another in.)
 */
#ifndef BELAY_MPI_LAYER_UPPER_MEET_H
#define BELAY_MPI_LAYER_UPPER_MEET_H

#include <mpi.h>

/*
 * Meet the members of one group (world ranks, own rank in it; rank 0 leads), then enter. Returns the handle
 * of the communicator to be, reserved (comm.h), NULL: out of memory. After the library's call:
 * comm_fill() or comm_unregister(), and collective_leave().
 */
MPI_Comm meet_group(const int *world, int size, int rank);

/* The same for two groups, of which this rank's is given. A leader knows the other's world rank. */
MPI_Comm meet_groups(const int *world, int size, int rank, int leader, int remote_leader_world);

#endif
