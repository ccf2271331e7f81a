/*
 * bell.c - belay-bell: a process of a step that takes a line when Slurm sends the step SIGURG, and
 * before the job's time limit (docs/slurm.md, "A line on a signal, or before the time limit").
 *
 *     belay-bell SLURMSTEPD RUNDIR JOB TIME
 *
 * JOB is the job's name, SLURMSTEPD the process with which the step ends. Slurm signals the children of that
 * process which are in the step. One more line is taken at TIME, in seconds since 1970, unless that is 0 or
 * past. A program ignores this signal unless it has a handler for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/wire/rundir.h"
#include "slurm-plugin/own_path.h"

#define SIGNAL SIGURG

extern char **environ;

/* Of the signals that users send to a step, those that end it are left to end this process as well. */
static int listen_for(void)
{
    sigset_t set;
    for (int number = 1; number < NSIG; number++)
        if (number != SIGTERM && number != SIGCHLD)
            signal(number, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGNAL);
    signal(SIGNAL, SIG_DFL); /* which is to ignore it, too, but lets the descriptor have it */
    if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Messages go where those of the agent go. */
static void open_log(const char *rundir)
{
    char path[PATH_MAX + 16];
    struct belay_error err;
    if (rundir_check(rundir, &err) < 0)
        return;
    snprintf(path, sizeof path, "%s/agent.log", rundir);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    dup2(fd, STDERR_FILENO);
    close(fd);
}

/* belay checkpoint JOB. Signals that come meanwhile are one more. */
static void take_line(const char *rundir, const char *job)
{
    char path[PATH_MAX];
    char *const argv[] = {path, (char *)(uintptr_t) "checkpoint", (char *)(uintptr_t)job, NULL};
    struct belay_error err;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t pid;
    open_log(rundir);
    if (own_path_of_belay(path, &err) < 0) {
        log_error("%s", err.text);
        return;
    }
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    int code = posix_spawn(&pid, path, NULL, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    if (code != 0) {
        log_error("cannot start %s: %s", path, strerror(code));
        return;
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static int alarm_at(const char *text)
{
    struct itimerspec at = {.it_value.tv_sec = (time_t)strtoll(text, NULL, 10)};
    int fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd >= 0 && at.it_value.tv_sec > time(NULL))
        timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL);
    return fd;
}

/* Whether there is something to read from the descriptor; it is read. */
static bool take(int fd)
{
    char bytes[sizeof(struct signalfd_siginfo)];
    return read(fd, bytes, sizeof bytes) > 0;
}

static void serve(int signals, int alarm, int end, const char *rundir, const char *job)
{
    struct pollfd fds[] = {
        {.fd = signals, .events = POLLIN}, {.fd = alarm, .events = POLLIN}, {.fd = end, .events = POLLIN}};
    while (!fds[2].revents) {
        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            return;
        bool has_signal = take(signals), is_late = take(alarm);
        if (has_signal || is_late)
            take_line(rundir, job);
    }
}

int main(int argc, char **argv)
{
    char *rest = NULL;
    unsigned long step = argc == 5 ? strtoul(argv[1], &rest, 10) : 0;
    if (argc != 5 || strlen(argv[2]) >= PATH_MAX || *rest || step == 0 || step > INT_MAX) {
        log_error("belay-bell is started by Slurm's plugin");
        return EXIT_FAILURE;
    }
    int end = pidfd_open((pid_t)step, 0), signals = listen_for(), alarm = alarm_at(argv[4]);
    if (end < 0 || signals < 0 || alarm < 0 || setenv("BELAY_RUNDIR", argv[2], 1) < 0)
        return EXIT_FAILURE;
    serve(signals, alarm, end, argv[2], argv[3]);
    return EXIT_SUCCESS;
}
