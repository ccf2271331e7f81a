/* process.h - the state of the application's process in the kernel, besides memory: noted, and made again. */
#ifndef BELAY_MPI_LAYER_LOWER_PROCESS_H
#define BELAY_MPI_LAYER_LOWER_PROCESS_H

#include "common/util/error.h"

/* Mark all descriptors that are open now as the application's; the caller takes its own out again. */
void process_adopt_fds(void);

/* Note descriptors, timers, working directory and umask in struct vk. Lower FS; threads are parked. */
void process_note(void);

/*
 * Open the noted descriptors at their numbers, go to the working directory. The parcel (held.h; -1: none) has
 * those that no path leads to. Before MPI_Init, so that the numbers are free. Descriptors that cannot be made
 * again (sockets, pipes) are closed, with their numbers taken, and are named on standard error. Returns 0, or
 * -1 with err: a file is gone or may not be opened any more.
 */
int process_restore_fds(int parcel, struct belay_error *err);

/*
 * After MPI_Init, whose descriptors lie above all that the program had open: free the numbers in between that
 * were kept taken meanwhile.
 */
void process_free_numbers(void);

/*
 * Start the noted timers with the time that they had left, when the threads that they signal exist. Set the
 * umask, after MPI_Init, which makes files of its own.
 */
int process_restore_timers(struct belay_error *err);

#endif
