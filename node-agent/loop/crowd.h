/*
 * crowd.h - how many clients the agent serves at a time: of one process, and of all.
 *
 * Only processes of the agent's own user and of root get so far. One that fails, or means harm, is not to
 * take the descriptors that the agent needs for its jobs, nor to keep the other processes from being served.
 * A process that is not in the agent's PID namespace has the number 0, as all such processes: they count in
 * the whole only. All functions are called from the agent's loop.
 */
#ifndef BELAY_NODE_AGENT_LOOP_CROWD_H
#define BELAY_NODE_AGENT_LOOP_CROWD_H

#include <stdint.h>
#include <sys/types.h>

#include "common/util/error.h"

#define CROWD_OF_PROCESS 64u /* a relay has one for each command that it serves, all others have a few */
#define CROWD_MAX 16384u     /* of all; fewer where descriptors are scarce: half of them */

/* A client of this process is about to be served. Returns 0, or -1 with err (EUSERS): it is not to be. */
int crowd_enter(pid_t process, struct belay_error *err);
/* It is gone. */
void crowd_leave(pid_t process);
/* Now served. */
uint32_t crowd_count(void);

#endif
