/*
 * rundir.h - the run directory, in which the agent of a user listens: where it is, and that nobody else has a
 * hand in it.
 *
 * It is ours alone if it is a directory (not a link to one) of this user with mode 0700, and if no other user
 * may put something else in its place: each folder on the way to it belongs to this user or to root, and
 * others may not write to it, or only to entries of their own (sticky, as /tmp is). In a user namespace the
 * owners that it does not map look alike; they are taken for root.
 */
#ifndef BELAY_COMMON_WIRE_RUNDIR_H
#define BELAY_COMMON_WIRE_RUNDIR_H

#include <stdbool.h>
#include <stddef.h>

#include "common/util/error.h"

/*
 * Its path: BELAY_RUNDIR, else /run/belay for root, else $XDG_RUNTIME_DIR/belay, else /tmp/belay-UID. With
 * create it is made. Returns 0 and fills path, or -1 with err, also if it is there and not ours alone.
 */
int rundir_resolve(char *path, size_t path_bytes, bool create, struct belay_error *err);

/* Returns 0 if it is ours alone, or not there at all (then nobody can be reached in it), else -1 with err. */
int rundir_check(const char *path, struct belay_error *err);

/* Make it unless it is there, and check it. Returns 0, or -1 with err. */
int rundir_make(const char *path, struct belay_error *err);

/*
 * The same, and keep it from being removed. An agent that leaves removes an empty directory, also in the
 * moment in which the next job begins to use it. Returns a descriptor, which the caller closes when it needs
 * the directory no more, or -1 with err.
 */
int rundir_hold(const char *path, struct belay_error *err);
/* Remove it, unless it has entries or somebody holds it. */
void rundir_remove(const char *path);

#endif
