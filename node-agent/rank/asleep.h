/*
 * asleep.h - whether a process that makes no call of MPI may be waiting for others, seen from outside.
 */
#ifndef BELAY_NODE_AGENT_RANK_ASLEEP_H
#define BELAY_NODE_AGENT_RANK_ASLEEP_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Do all its threads sleep in system calls, the first one in a call that others end (a lock, a message, a
 * pipe), not only time? From /proc/PID/task/TID/syscall. False if that cannot be read.
 */
bool asleep_for_others(pid_t pid);

#endif
