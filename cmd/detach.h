/*
 * detach.h - go on in the background, while the first process waits for the word that all is well.
 *
 * The background process leaves the session and the terminal. The job's standard output and error go to
 * NAME.out and NAME.err in the current directory: the first process's own streams are not kept open, so that
 * job=$(belay run --detach ...) returns at once. Standard input is /dev/null.
 */
#ifndef BELAY_CMD_DETACH_H
#define BELAY_CMD_DETACH_H

#include "common/util/error.h"

struct detach {
    int report_fd;      /* to the first process; -1: not detached */
    int out_fd, err_fd; /* the job's streams; -1: as ours */
};

/* A process that is not detached. */
#define DETACH_NONE                                                                                          \
    {                                                                                                        \
        -1, -1, -1                                                                                           \
    }

/*
 * Fork. In the first process: wait for the other's word, print the job's name, and return 1 with *exit_code
 * set (what this process is to exit with). In the background process: return 0. -1 with err if that fails.
 */
int detach_fork(struct detach *detach, int *exit_code, struct belay_error *err);

/* Background process: open the files for the job's streams. 0, or -1 with err. No-op if not detached. */
int detach_open_streams(struct detach *detach, const char *name, struct belay_error *err);

/* Background process: the launch runs. Our own streams move to the files as well. No-op if not detached. */
void detach_report_success(struct detach *detach, const char *name);

/* Background process: it came to nothing (no-op after a success or if not detached). */
void detach_report_failure(struct detach *detach, int exit_code);

#endif
