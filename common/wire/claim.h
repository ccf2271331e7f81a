/*
 * claim.h - which arbiter runs a job: a file in the undo folder, where all hosts of the job see it
 * (docs/hosts.md, "One arbiter at a time").
 *
 * The file is written in place, in one go, so that a reader on another host has the old contents or the new
 * ones. It is read with the checks of any file that others may have put there.
 */
#ifndef BELAY_COMMON_WIRE_CLAIM_H
#define BELAY_COMMON_WIRE_CLAIM_H

#include <limits.h>
#include <stdint.h>

#include "common/util/error.h"

#define CLAIM_NAME "arbiter" /* in the folder */

struct claim {
    char host[HOST_NAME_MAX + 1];
    uint32_t epoch; /* the newest that was opened; 0: none yet */
    uint64_t token; /* random, of the arbiter's process */
};

/* Returns 0, or -1 with errno: ENOENT: nobody has claimed the job; EBADMSG: the file cannot be used. */
int claim_read(const char *folder, struct claim *claim);
/* The file is on the disk then. Returns 0 or -1 with err. */
int claim_write(const char *folder, const struct claim *claim, struct belay_error *err);

#endif
