/*
 * main.c - belayd, the node agent.
 *
 *     belayd --rundir DIR [--foreground]
 *
 * Returns 0 as soon as an agent serves DIR, be it this one, in the background, or another. Otherwise it
 * says why not on standard error and returns 1 (2: wrong use).
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/util/log.h"
#include "node-agent/loop/inherited.h"
#include "node-agent/loop/processor.h"
#include "node-agent/service/daemon.h"

#define KEPT_BYTES (16 << 20) /* of freed memory: fresh pages would come in the pause of each line */

static int parse_arguments(int argc, char **argv, const char **rundir, bool *is_foreground);
static int serve(const char *rundir, int ready);
static int serve_in_background(const char *rundir);
static void detach(const char *rundir, int null);

int main(int argc, char **argv)
{
    const char *rundir;
    bool is_foreground;
    struct belay_error err;
    if (parse_arguments(argc, argv, &rundir, &is_foreground) < 0)
        return 2;
    if (inherited_shed(&err) < 0) {
        log_error("%s", err.text);
        return 1;
    }
    mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
    processor_shorten_slices();
    return is_foreground ? serve(rundir, -1) : serve_in_background(rundir);
}

static int parse_arguments(int argc, char **argv, const char **rundir, bool *is_foreground)
{
    *rundir = NULL;
    *is_foreground = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--rundir") && i + 1 < argc)
            *rundir = argv[++i];
        else if (!strcmp(argv[i], "--foreground"))
            *is_foreground = true;
        else
            *rundir = NULL, i = argc;
    }
    if (*rundir && (*rundir)[0] == '/')
        return 0;
    log_error("usage: belayd --rundir DIR [--foreground], with an absolute path");
    return -1;
}

/* ready: a pipe that hears of success by one byte, -1: nobody listens. */
static int serve(const char *rundir, int ready)
{
    struct belay_error err;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC); /* later there may be no descriptor for it */
    if (null < 0)
        belay_error_errno(&err, "cannot open /dev/null");
    struct daemon *daemon = null >= 0 ? daemon_create(rundir, &err) : NULL;
    if (!daemon && err.code != EBUSY) {
        log_error("%s", err.text);
        return 1;
    }
    if (daemon && ready >= 0)
        detach(rundir, null);
    close(null);
    if (ready >= 0) {
        ssize_t ignored = write(ready, "", 1);
        (void)ignored;
        close(ready);
    }
    if (!daemon)
        return 0;
    log_info("the agent serves %s", rundir);
    daemon_run(daemon);
    daemon_destroy(daemon);
    return 0;
}

/*
 * No signal of the terminal reaches us, and its end does not either. Not by a session of our own: kernels
 * that share the processors among sessions (autogroup) let ranks that yield starve another one for seconds.
 */
static void leave_terminal(void)
{
    setpgid(0, 0);
    signal(SIGHUP, SIG_IGN);
}

/* The child says what goes wrong itself; all that the parent needs is whether it serves. */
static int serve_in_background(const char *rundir)
{
    int ends[2];
    char byte;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        log_error("cannot start: %s", strerror(errno));
        return 1;
    }
    pid_t child = fork();
    if (child < 0) {
        log_error("cannot start: %s", strerror(errno));
        return 1;
    }
    if (child == 0) {
        close(ends[0]);
        leave_terminal();
        return serve(rundir, ends[1]);
    }
    close(ends[1]);
    ssize_t got;
    do {
        got = read(ends[0], &byte, 1);
    } while (got < 0 && errno == EINTR);
    return got == 1 ? 0 : 1;
}

/* From now on nothing of whoever started us is held: no pipe, no terminal. */
static void detach(const char *rundir, int null)
{
    char path[256];
    snprintf(path, sizeof path, "%s/agent.log", rundir);
    if (log_open(path) < 0)
        log_warning("cannot write %s: %s", path, strerror(errno));
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
}
