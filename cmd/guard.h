/*
 * guard.h - a process that ends a launcher if belay is killed.
 *
 * The agent, if there is one, ends the ranks then, and a launcher without ranks ends by itself. mpirun may
 * crash over a SIGTERM that comes while it does so, and leave shared memory behind. So the guard asks a
 * launcher that has not ended after two seconds, and only if belay had not asked it; ten seconds later it
 * kills it. What the launcher has left (session.h) is removed by belay, or by the guard if belay is killed.
 *
 * Not PR_SET_PDEATHSIG: it counts the parent's threads, not the parent. When the one that forked has died,
 * the child goes to another thread, and gets the signal again when that one dies (kernel/exit.c,
 * forget_original_parent). mpirun takes a second SIGTERM for an order to leave at once, and leaves shared
 * memory behind.
 */
#ifndef BELAY_CMD_GUARD_H
#define BELAY_CMD_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/util/error.h"

struct guard {
    pid_t pid;                /* 0: none */
    atomic_bool *has_asked;   /* memory that it shares with us: belay has asked the launcher to end */
    pid_t launcher;           /* over which it is ... */
    const char *session_base; /* ... and where that has its session folder; borrowed */
};

/* Start the guard over `launcher`, a child of ours. Returns 0, or -1 with err. */
int guard_start(struct guard *guard, pid_t launcher, const char *session_base, struct belay_error *err);

/* The launcher is asked to end, or has been by the terminal. A zeroed guard knows nobody to tell. */
void guard_note_asked(const struct guard *guard);

/* The launcher was reaped: remove what it has left. End the guard and reap it, if there is one. */
void guard_end(struct guard *guard);

#endif
