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

struct launcher;

/* A process that was started, and our end of its streams; -1: none. */
struct hosts_child {
    pid_t pid; /* 0: none */
    int in, out;
    int said; /* a file of what it has said on standard error, if that is kept */
};

#define HOSTS_CHILD_NONE ((struct hosts_child){.in = -1, .out = -1, .said = -1})

enum hosts_child_errors {
    HOSTS_CHILD_SAYS,    /* on our standard error */
    HOSTS_CHILD_KEEPS,   /* until hosts_child_tell() */
    HOSTS_CHILD_IS_QUIET /* it goes nowhere */
};

/* How launchers are called; borrowed. */
struct hosts_launch {
    char *const *argv;               /* the user's line */
    const struct launcher *launcher; /* its own; NULL: the launch has begun */
    char *const *environment;
    const char *relay;  /* the program */
    const char *rundir; /* of each user on each host */
    const sigset_t *signal_mask;
};

/*
 * Run it. Takes the list of words over; NULL: there was no memory for it. Returns 0, or -1 with err; *child
 * is valid in both cases.
 */
int hosts_child_start(struct hosts_child *child, char **argv, const struct hosts_launch *launch,
                      enum hosts_child_errors errors, struct belay_error *err);
/* Say what was kept, on our standard error. No-op if nothing was. */
void hosts_child_tell(struct hosts_child *child);
/* Has it ended? *status is as of waitpid(2). False if there is none. */
bool hosts_child_has_ended(struct hosts_child *child, int *status);
/* It is asked to end, and then ended; waits for that. No-op without a child. */
void hosts_child_stop(struct hosts_child *child);
/* The same, but it is not asked. */
void hosts_child_kill(struct hosts_child *child);
/* It gets this time to end by itself. Returns whether it has. */
bool hosts_child_await(struct hosts_child *child, int timeout_ms);
/* Close one of its ends, if it is open. */
void hosts_child_close(int *fd);

#endif
