/*
 * outside.h - processes of a user outside of the control groups of the user's jobs, or beside a task, started
 * by root.
 *
 * This is all that Belay does with privileges: it forks, joins the site's group, becomes the user and
 * executes a program of the installation. Nothing that a user has written is read or parsed.
 */
#ifndef BELAY_SLURM_PLUGIN_OUTSIDE_H
#define BELAY_SLURM_PLUGIN_OUTSIDE_H

#include <stdint.h>
#include <sys/types.h>

#include "common/util/error.h"

struct outside {
    uid_t user;
    gid_t group;
    const gid_t *groups; /* supplementary ones */
    size_t group_count;
    const char *rundir; /* of the user: made if the folder above is root's alone */
    const char *name;   /* of the control group, below the root of each hierarchy; users have theirs in it */
    uint64_t memory;    /* of all processes there of one user; 0: no limit */
    pid_t beside;       /* instead: in the control groups of the job that this process is in; 0: none */
};

/*
 * Run a program as the user, outside of the job, until it has ended or gone to the background. argv[0] is its
 * path. Returns 0 if its exit status was 0, or -1 with err: EPERM if this process is not root's, EACCES if
 * the control groups cannot be left, ETIMEDOUT if it took longer than 10 s, and was killed.
 */
int outside_run(const struct outside *of, char *const argv[], struct belay_error *err);

/* Start a program as the user. Returns its process id: it is a child of this process. -1 with err. */
pid_t outside_start(const struct outside *of, char *const argv[], struct belay_error *err);

#endif
