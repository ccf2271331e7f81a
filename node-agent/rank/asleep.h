/*
 * asleep.h - whether a process that is in no MPI call may be waiting for other processes, seen from outside.
 */
#ifndef BELAY_NODE_AGENT_RANK_ASLEEP_H
#define BELAY_NODE_AGENT_RANK_ASLEEP_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Whether all threads of `pid` sleep in system calls, and the first one in a call that another process ends
 * (a lock, a message, a pipe), not only time. From /proc/PID/task/TID/syscall. False if this cannot be read.
 */
bool asleep_for_others(pid_t pid);

#endif
