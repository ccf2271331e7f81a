/*
 * settings.h - what a program has set for its whole process with the kernel: prctl, personality, its user,
 * files of /proc/self. Noted at a line, and set again after a restart where it is not what the process began
 * with; otherwise the new launch's counts. docs/policies.md has the list.
 */
#ifndef BELAY_MPI_LAYER_LOWER_SETTINGS_H
#define BELAY_MPI_LAYER_LOWER_SETTINGS_H

#include "common/util/error.h"

/* Before the program runs for the first time. */
void settings_begin(void);
/* The rank parks. */
void settings_note(void);
/*
 * The memory is back, and no thread of the program runs yet: threads that are made from here on have the same
 * user. Returns 0, or -1 with err: the process would be another user than the program believes.
 */
int settings_restore(struct belay_error *err);

#endif
