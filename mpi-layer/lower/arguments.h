/*
 * arguments.h - what /proc/PID/cmdline, environ and auxv show, and which mapping is called [stack]: the
 * application's, not belay-launch's.
 *
 * The kernel shows a range of the process's memory. In place of its own initial stack it is told where the
 * application's is, so what a program writes over its arguments (setproctitle) is seen as well.
 */
#ifndef BELAY_MPI_LAYER_LOWER_ARGUMENTS_H
#define BELAY_MPI_LAYER_LOWER_ARGUMENTS_H

/* The rank parks: the program may have told the kernel of other ranges (PR_SET_MM). */
void arguments_note(void);

/*
 * Tell the kernel of the ranges in struct vk. A kernel that refuses (without CONFIG_CHECKPOINT_RESTORE) shows
 * belay-launch's arguments, which harms nobody.
 */
void arguments_show(void);

#endif
