/* filter.h - the seccomp filter: which system calls of the upper half are trapped. No libc in it. */
#ifndef BELAY_MPI_LAYER_LOWER_FILTER_H
#define BELAY_MPI_LAYER_LOWER_FILTER_H

#include <stdbool.h>

/* Install it for all threads. Returns 0, -errno, or the id of a thread that could not get it. */
int filter_install(void);

/* One more, for programs that have set a timeout on a socket: the calls that it may end are waits
 * (vk_wait.c). */
int filter_install_for_sockets(void);

/* One more, for programs that have mapped a file shared which they may make writable later (vk_mprotect()).
 */
int filter_install_for_mprotect(void);
/* From now on reads, as of a signalfd, are trapped, too. */
int filter_install_for_reads(void);

/* Is a trapped call a wait, or a transfer that may go on as one? Arguments as the kernel takes them. */
bool filter_is_wait(long nr, const long args[6]);

#endif
