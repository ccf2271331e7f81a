/*
 * processor.h - gets processor time for the agent's threads, although the ranks use all processors.
 */
#ifndef BELAY_NODE_AGENT_LOOP_PROCESSOR_H
#define BELAY_NODE_AGENT_LOOP_PROCESSOR_H

#include <sys/types.h>

/*
 * Ask for a short time slice for the calling thread, not for threads that it starts. Such a thread need not
 * wait for the end of a rank's slice, and goes on when it wakes another thread (Linux 6.12: sched_setattr(2),
 * sched_runtime of SCHED_OTHER; no privilege is needed). Older kernels ignore it.
 */
void processor_shorten_slices(void);

/*
 * Let this process, and the processes that it starts, run on every processor that any of its ancestors of the
 * same user may use. A launcher binds its ranks, and a rank may have started the agent.
 */
void processor_take_all(void);

/*
 * Move this thread to the processor on which process `pid`, which stands still, has run last: this processor
 * is idle, and its caches and memory are near. The kernel may move the thread away again. A failure is
 * ignored.
 */
void processor_follow(pid_t pid);

#endif
