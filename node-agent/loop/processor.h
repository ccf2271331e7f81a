/*
 * processor.h - how the agent's threads get processors, all of which ranks take.
 */
#ifndef BELAY_NODE_AGENT_LOOP_PROCESSOR_H
#define BELAY_NODE_AGENT_LOOP_PROCESSOR_H

#include <sys/types.h>

/*
 * For this thread, not for those that it starts: whoever asks for a short slice of time need not wait for the
 * end of a rank's (Linux 6.12: sched_setattr(2), sched_runtime of SCHED_OTHER; no privilege is needed), and
 * goes on when it wakes another thread. Older kernels ignore it.
 */
void processor_shorten_slices(void);

/*
 * Let this process, and what it starts, run where any of its ancestors of the same user may: a launcher binds
 * its ranks, and a rank may be who starts the agent.
 */
void processor_take_all(void);

/*
 * Move this thread to the processor that a process, which stands still now, has run on last: it is idle, and
 * near the memory. It need not stay there. Where that is not possible, nothing happens.
 */
void processor_follow(pid_t pid);

#endif
