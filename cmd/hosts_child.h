/*
 * hosts_child.h - a launcher or relay that belay run has started, with pipes to its standard streams.
 */
#ifndef BELAY_CMD_HOSTS_CHILD_H
#define BELAY_CMD_HOSTS_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/util/error.h"

/* A process that was started, and our end of its streams; -1: none. */
struct hosts_child {
    pid_t pid; /* 0: none */
    int in, out;
};

/* How launchers are called; borrowed. */
struct hosts_launch {
    char *const *argv; /* the user's line */
    char *const *environment;
    const char *relay;  /* the program */
    const char *rundir; /* of each user on each host */
    const sigset_t *signal_mask;
};

/*
 * Run it. Takes the list of words over; NULL: there was no memory for it. is_quiet: its standard error goes
 * nowhere. Returns 0, or -1 with err; *child is valid in both cases.
 */
int hosts_child_start(struct hosts_child *child, char **argv, const struct hosts_launch *launch,
                      bool is_quiet, struct belay_error *err);
/* Has it ended? *status is as of waitpid(2). False if there is none. */
bool hosts_child_has_ended(struct hosts_child *child, int *status);
/* It is asked to end, and then ended; waits for that. No-op without a child. */
void hosts_child_stop(struct hosts_child *child);
/* Close one of its ends, if it is open. */
void hosts_child_close(int *fd);

#endif
