/*
 * meet.h - collectives whose participants share no communicator yet (MPI_Comm_create_group,
 * MPI_Intercomm_create), so that there is no clock to count them on.
 *
 * The participants first meet in the upper half, by messages that a line can drain and while waiting for
 * which a rank can park. When a rank is let go, all have come, so the library's call cannot keep anybody
 * waiting for one that a line has stopped. The rank is then inside, until meet_leave(). All functions
 * return the id of the new communicator, chosen by the leader.
 */
#ifndef BELAY_MPI_LAYER_UPPER_MEET_H
#define BELAY_MPI_LAYER_UPPER_MEET_H

#include <stdint.h>

/* The members of one group; world ranks, own rank in it. Rank 0 leads. */
uint64_t meet_group(const int *world, int size, int rank);

/* Two groups, this rank's given. The leaders know one another's world rank. */
uint64_t meet_groups(const int *world, int size, int rank, int leader, int remote_leader_world);

/* Nobody to meet: the caller is no member, the library will say what that means. */
uint64_t meet_nobody(void);

/* After the library's call. */
void meet_leave(void);

#endif
