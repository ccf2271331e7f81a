/*
 * executables.h - can the programs of a launch line be protected at all? Looked at before anything starts.
 */
#ifndef BELAY_CMD_EXECUTABLES_H
#define BELAY_CMD_EXECUTABLES_H

#include "common/util/error.h"

/*
 * Look at each program that an mpirun line names (other launchers' lines are not understood and pass, as does
 * what cannot be found or is no ELF file: the launcher has its own words for that). Returns 0, or -1 with err
 * (ENOEXEC) for a statically linked program, which no preload reaches.
 */
int executables_check(char *const argv[], struct belay_error *err);

#endif
