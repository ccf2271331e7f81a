/* trap.h - the safety net: a seccomp filter on the instruction pointer, and the handler of its SIGSYS. */
#ifndef BELAY_MPI_LAYER_LOWER_TRAP_H
#define BELAY_MPI_LAYER_LOWER_TRAP_H

#include "common/util/error.h"

/*
 * From now on system calls of vk_trapped_calls made by code of the upper half raise SIGSYS, which the
 * handler serves; threads made later inherit it, so do children until they exec (they keep the filter,
 * which then never matches). Sets NO_NEW_PRIVS: set-user-id programs that the application starts run
 * without their privilege. Returns 0, or -1 with err where the kernel has no seccomp filters.
 */
int trap_install(struct belay_error *err);

#endif
