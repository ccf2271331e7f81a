/*
 * reach.h - how far a mapping of a file can be read: to the end of the file.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_REACH_H
#define BELAY_NODE_AGENT_CAPTURE_REACH_H

#include <stdint.h>
#include <sys/types.h>

/*
 * The end of the last page that can be read of a mapping from `start` to `end` of process `pid`; `start` if
 * none can; `end` if that cannot be found out.
 */
uint64_t reach_of(pid_t pid, uint64_t start, uint64_t end);

#endif
