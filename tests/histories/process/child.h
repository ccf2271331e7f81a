/*
 * child.h - forked children that tell what they have found. A restart takes a running child away: it is then
 * forked again, from the same memory.
 */
#ifndef BELAY_TESTS_HISTORIES_PROCESS_CHILD_H
#define BELAY_TESTS_HISTORIES_PROCESS_CHILD_H

#include <stddef.h>
#include <sys/types.h>

#define CHILD_TEXT 2000

struct child {
    char text[CHILD_TEXT]; /* what it has told */
    int status;            /* of waitpid */
};

/* Start a child whose standard output, or descriptor `report`, is this one; its process id or -1. */
typedef pid_t child_start_f(int report, void *context);

/* Start it, read what it tells, wait for it. */
void child_run(child_start_f *start, void *context, struct child *child);

/* Let a child of fork() call this, and end with the status that it returns; what it writes to `report` is
 * told. */
void child_fork(int (*work)(int report), struct child *child);

#endif
