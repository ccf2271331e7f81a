/*
 * guard.h - a process that asks a launcher to end if belay is killed.
 *
 * Not PR_SET_PDEATHSIG: it counts the parent's threads, not the parent. When the one that forked has died,
 * the child goes to another thread, and gets the signal again when that one dies (kernel/exit.c,
 * forget_original_parent). mpirun takes a second SIGTERM for an order to leave at once, and leaves shared
 * memory behind.
 */
#ifndef BELAY_CMD_GUARD_H
#define BELAY_CMD_GUARD_H

#include <sys/types.h>

#include "common/util/error.h"

/*
 * Start the guard: when this process is gone, `launcher` (a child of ours) gets one SIGTERM. It ends with the
 * launcher, too. Returns its pid, or -1 with err.
 */
pid_t guard_start(pid_t launcher, struct belay_error *err);

/* End and reap it; 0: there is none. */
void guard_end(pid_t guard);

#endif
