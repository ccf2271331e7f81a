/*
 * launcher.h - the launcher of an epoch, from outside: whether it is gone, and what makes it go.
 *
 * The launcher may be a script that has started mpirun, and each rank may have a shell around it: these
 * processes wait for one another.
 */
#ifndef BELAY_NODE_AGENT_LAUNCH_LAUNCHER_H
#define BELAY_NODE_AGENT_LAUNCH_LAUNCHER_H

#include <stdbool.h>
#include <sys/types.h>

#define LAUNCHER_WAITING_MAX 16u

struct launcher {
    pid_t pid; /* 0: not known */
    int pidfd; /* -1: not known */
    struct {
        pid_t pid;
        int pidfd;
    } waiting[LAUNCHER_WAITING_MAX]; /* the processes between a rank and the launcher, and the launcher */
    unsigned waiting_count;
    bool has_asked_inner, has_asked; /* to end: the processes between; the launcher */
};

/*
 * The agent may end the launcher, so pid must be a child of the arbiter. If it is not (the number may be
 * another process's by now, or of another pid namespace), the launcher is not known, as with pid 0.
 */
void launcher_open(struct launcher *launcher, pid_t pid, pid_t arbiter);
void launcher_close(struct launcher *launcher);

/* Also true if the launcher is not known. */
bool launcher_is_gone(const struct launcher *launcher);

/*
 * Ask those who wait to end, each once: first the processes between, then, when they are gone, the launcher.
 * A script that ended before its mpirun would leave that alone, and mpirun may hang: a rank that was killed
 * while it connected to mpirun makes it lock itself out in PMIx_server_finalize (PMIx 4.2).
 */
void launcher_ask(struct launcher *launcher);

/* Kill those between, or, when they are gone, the launcher. */
void launcher_kill(const struct launcher *launcher);

/* Whether a process that waits for ranks still runs. A script that goes on after its mpirun does not count.
 */
bool launcher_is_waiting(const struct launcher *launcher);

/* Note the processes between it and a rank that runs. Those that find no place are left out. */
void launcher_note(struct launcher *launcher, pid_t rank);

/*
 * Have all of these look again whether a child has ended, by a SIGCHLD. Open MPI's mpirun sleeps for a
 * second (odls_base_sigkill_timeout) after each signal that it sends to the ranks of a launch that has
 * failed, also if they are gone by then; a signal ends its sleep.
 */
void launcher_nudge(const struct launcher *launcher);

#endif
