/*
 * launch.h - one launch: the launcher (mpirun, srun, a script) as a child of belay.
 *
 * It is made in two steps, because the agent names the epoch only when it knows the launcher's pid, and the
 * epoch is part of the launch line: launch_fork() makes a child that waits, launch_go() lets it execute.
 * The child keeps belay's standard streams. With a terminal it stays in belay's process group, so that stdin,
 * Ctrl-C and Ctrl-Z work as without belay. Without one it gets a group of its own: a signal to belay's whole
 * group (timeout(1), a batch system) then reaches it once, from belay. It is ended if belay is killed
 * (guard.h).
 */
#ifndef BELAY_CMD_LAUNCH_H
#define BELAY_CMD_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cmd/guard.h"
#include "cmd/hosts.h"
#include "common/util/error.h"

/* What is launched, in the current directory; everything is borrowed. */
struct launch_spec {
    char *const *argv;
    char *const *environment;
    const char *name;
    const char *rundir;
    const char *preload;
    const struct hosts *hosts;   /* that the ranks run on; NULL: this one */
    bool is_placed;              /* the ranks go where the placement says, not where the launcher likes */
    int in_fd;                   /* for its standard input; -1: as ours */
    int out_fd, err_fd;          /* for its standard output and error; -1: as ours */
    bool is_own_group;           /* give it a process group of its own */
    const sigset_t *signal_mask; /* the mask it starts with */
};

struct launch {
    pid_t pid;   /* 0: none */
    int go_fd;   /* write the epoch here; -1 once that is done */
    int fail_fd; /* the child's errno, if it cannot execute */
    struct guard guard;
};

/* Make the waiting child. Returns 0, or -1 with err. */
int launch_fork(struct launch *launch, const struct launch_spec *spec, struct belay_error *err);

/*
 * Let it execute, with these words for BELAY_PLACEMENT (NULL: none), and wait until it has, or was killed
 * before. Returns 0, or -1 with err (code: what execvp said) after the child was reaped.
 */
int launch_go(struct launch *launch, uint32_t epoch, const char *placement, struct belay_error *err);

/* End a child that is not to go on, and reap it. */
void launch_cancel(struct launch *launch);

/* The caller has reaped the child. */
void launch_reaped(struct launch *launch);

#endif
