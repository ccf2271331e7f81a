/*
 * children.h - processes that the rank has started: no image holds them. A line notes how those stand that
 * the program has not waited for; the agent is told of those that run, and decides whether the line is taken
 * (common/wire/shares.h). After a restart the program finds them ended (vk_child.h).
 */
#ifndef BELAY_MPI_LAYER_LOWER_CHILDREN_H
#define BELAY_MPI_LAYER_LOWER_CHILDREN_H

/* Around MPI_Init: those that it starts are the MPI library's, not the program's. */
void children_init_begins(void);
void children_init_ended(void);

/* At a line, when the threads stand and the list of shares has begun. */
void children_note(void);

/* After a restart, before the threads go on: a SIGCHLD for each child that ran at the line. */
void children_restore(void);

#endif
