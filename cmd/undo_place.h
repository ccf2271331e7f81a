/*
 * undo_place.h - where the undo folder of a job on several hosts is, if the user does not say
 * (docs/hosts.md).
 *
 * The folder lies above the working directory, on the same file system, and is hidden: a program that looks
 * at all names in its working directory must not find one more there.
 */
#ifndef BELAY_CMD_UNDO_PLACE_H
#define BELAY_CMD_UNDO_PLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/util/file_id.h"

struct undo_place {
    char path[PATH_MAX]; /* absolute, without symbolic links */
    struct file_id id;
    uint64_t kernel;    /* that runs this host (common/util/mounts.h) */
    bool is_on_network; /* its file system, which other hosts have under other device numbers */
};

/* Do all hosts see this folder? */
typedef bool undo_place_seen_f(const struct undo_place *place, void *context);

/*
 * Make the folder, empty, with mode 0700 and a name that no other folder has. job: a part of the name; NULL:
 * not known. Returns 0, or -1 with errno: EXDEV: the hosts have no such file system in common; else why none
 * could be made, and nothing is left.
 */
int undo_place_make(struct undo_place *place, const char *job, undo_place_seen_f *is_seen, void *context);

/* If it is empty: no agent has taken it. */
void undo_place_remove(const struct undo_place *place);

#endif
