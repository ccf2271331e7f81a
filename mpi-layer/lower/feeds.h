/*
 * feeds.h - does the program read what a child writes, or a child of a child? Such a process is needed:
 * without it the program would find the end of what it reads, and take the child for one that was killed.
 */
#ifndef BELAY_MPI_LAYER_LOWER_FEEDS_H
#define BELAY_MPI_LAYER_LOWER_FEEDS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Has the process open for writing a pipe that the rank reads, the other end of a pair of sockets, or a
 * terminal whose master the rank has? When the descriptors are noted, and the threads stand.
 */
bool feeds_program(pid_t pid);

/* Does the rank read a pipe, or have one end of a pair, whose other end must be in another process? */
bool feeds_are_read(void);

/*
 * Is there such an end that there was not at the last call? For a line at which no process was found that
 * feeds the rank: the other end may be on its way from one process to the next (SCM_RIGHTS), and in nobody's
 * table of descriptors.
 */
bool feeds_may_come(void);

#endif
