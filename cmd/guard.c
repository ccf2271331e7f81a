#include "cmd/guard.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* All of belay's other descriptors: whoever waits for their end must not wait for us. */
static void close_others(int one, int other)
{
    unsigned first = (unsigned)(one < other ? one : other), second = (unsigned)(one < other ? other : one);
    if (first > 0)
        close_range(0, first - 1, 0);
    if (second > first + 1)
        close_range(first + 1, second - 1, 0);
    close_range(second + 1, ~0u, 0);
}

static void __attribute__((noreturn)) watch(int belay, int launcher)
{
    struct pollfd ends[] = {{.fd = belay, .events = POLLIN}, {.fd = launcher, .events = POLLIN}};
    prctl(PR_SET_NAME, "belay-guard");
    setpgid(0, 0); /* signals to belay's group, and the terminal's, are not meant for it */
    close_others(belay, launcher);
    while (poll(ends, 2, -1) < 0 && errno == EINTR)
        ;
    if (!ends[1].revents)
        pidfd_send_signal(launcher, SIGTERM, NULL, 0);
    _exit(0);
}

pid_t guard_start(pid_t launcher, struct belay_error *err)
{
    int belay_fd = pidfd_open(getpid(), 0), launcher_fd = pidfd_open(launcher, 0);
    pid_t pid = belay_fd < 0 || launcher_fd < 0 ? -1 : fork();
    if (pid == 0)
        watch(belay_fd, launcher_fd);
    if (pid < 0)
        belay_error_errno(err, "cannot start a process that watches over the launch");
    close_if_open(belay_fd);
    close_if_open(launcher_fd);
    return pid;
}

void guard_end(pid_t guard)
{
    if (guard <= 0)
        return;
    kill(guard, SIGKILL);
    while (waitpid(guard, NULL, 0) < 0 && errno == EINTR)
        ;
}
