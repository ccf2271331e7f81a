/* epoch_lease.h - the end of the node's lease (lease.h), as the ranks of an epoch and the keeper know it. */
#ifndef BELAY_NODE_AGENT_LAUNCH_EPOCH_LEASE_H
#define BELAY_NODE_AGENT_LAUNCH_EPOCH_LEASE_H

#include "node-agent/launch/epoch_state.h"

/* From now on the rank ends with the lease, also without this agent. */
void epoch_guard_rank(struct epoch *epoch, struct rank *rank);
/* The keeper forgets the ranks' processes; before their descriptors are closed. */
void epoch_unguard_ranks(struct epoch *epoch);

/* The end of the job's lease has changed: tell the ranks. */
void epoch_tell_lease(struct epoch *epoch);
/* The lease is over: all ranks are killed, and count as lost. */
void epoch_fence(struct epoch *epoch);

#endif
