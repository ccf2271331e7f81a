/* trap.h - the safety net: a seccomp filter on the instruction pointer, and the handler of its SIGSYS. */
#ifndef BELAY_MPI_LAYER_LOWER_TRAP_H
#define BELAY_MPI_LAYER_LOWER_TRAP_H

#include "common/util/error.h"

/*
 * From now on the system calls of vk_trapped_calls raise SIGSYS if code of the upper half makes them, and the
 * handler serves them. Threads that are made later inherit the filter, and so do children; behind an exec of
 * theirs it stays, but matches no call any more. Sets NO_NEW_PRIVS: set-user-id programs that the application
 * starts run without their privilege. Returns 0, or -1 with err where the kernel has no seccomp filters.
 */
int trap_install(struct belay_error *err);

#endif
