#include "node-agent/launch/launcher.h"

#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/util/process_stat.h"

#define GENERATIONS_MAX 32 /* between a rank and its launcher */

static unsigned signal_inner(const struct launcher *launcher, int signal);
static pid_t parent_of(pid_t pid);
static bool is_noted(const struct launcher *launcher, pid_t pid);
static void note(struct launcher *launcher, pid_t pid);

void launcher_open(struct launcher *launcher, pid_t pid, pid_t arbiter)
{
    *launcher = (struct launcher){.pid = pid, .pidfd = pid > 0 ? pidfd_open(pid, 0) : -1};
    if (launcher->pidfd >= 0 && parent_of(pid) == arbiter && !launcher_is_gone(launcher)) {
        note(launcher, pid);
        return;
    }
    if (launcher->pidfd >= 0)
        log_warning("process %d is not the launcher that process %d has started: it is not watched", (int)pid,
                    (int)arbiter);
    launcher_close(launcher);
}

void launcher_close(struct launcher *launcher)
{
    for (unsigned i = 0; i < launcher->waiting_count; i++)
        close(launcher->waiting[i].pidfd);
    if (launcher->pidfd >= 0)
        close(launcher->pidfd);
    *launcher = (struct launcher){.pidfd = -1}; /* and pid 0 */
}

static bool is_gone(int pidfd)
{
    struct pollfd gone = {.fd = pidfd, .events = POLLIN};
    return poll(&gone, 1, 0) > 0;
}

bool launcher_is_gone(const struct launcher *launcher)
{
    return launcher->pidfd < 0 || is_gone(launcher->pidfd);
}

void launcher_ask(struct launcher *launcher)
{
    unsigned left = signal_inner(launcher, launcher->has_asked_inner ? 0 : SIGTERM);
    launcher->has_asked_inner = true;
    if (left > 0 || launcher->has_asked)
        return;
    launcher->has_asked = true;
    pidfd_send_signal(launcher->pidfd, SIGTERM, NULL, 0);
}

void launcher_kill(const struct launcher *launcher)
{
    if (signal_inner(launcher, SIGKILL) == 0)
        pidfd_send_signal(launcher->pidfd, SIGKILL, NULL, 0);
}

bool launcher_is_waiting(const struct launcher *launcher)
{
    bool has_inner = false;
    for (unsigned i = 0; i < launcher->waiting_count; i++)
        has_inner |= launcher->waiting[i].pid != launcher->pid;
    return has_inner ? signal_inner(launcher, 0) > 0 : !launcher_is_gone(launcher);
}

/* 0: none is sent. Returns how many there are. */
static unsigned signal_inner(const struct launcher *launcher, int signal)
{
    unsigned left = 0;
    for (unsigned i = 0; i < launcher->waiting_count; i++) {
        int pidfd = launcher->waiting[i].pidfd;
        if (launcher->waiting[i].pid == launcher->pid || is_gone(pidfd))
            continue;
        left++;
        pidfd_send_signal(pidfd, signal, NULL, 0);
    }
    return left;
}

void launcher_note(struct launcher *launcher, pid_t rank)
{
    pid_t above[GENERATIONS_MAX];
    int count = 0;
    if (launcher->pid <= 0)
        return;
    for (pid_t pid = parent_of(rank); pid > 1 && count < GENERATIONS_MAX; pid = parent_of(pid)) {
        above[count++] = pid;
        if (pid == launcher->pid)
            break;
    }
    if (count == 0 || above[count - 1] != launcher->pid)
        return;
    for (int i = 0; i < count; i++)
        note(launcher, above[i]);
}

void launcher_nudge(const struct launcher *launcher)
{
    for (unsigned i = 0; i < launcher->waiting_count; i++)
        pidfd_send_signal(launcher->waiting[i].pidfd, SIGCHLD, NULL, 0);
}

/* 0: it is gone. */
static pid_t parent_of(pid_t pid)
{
    static const enum process_field field = PROCESS_PARENT;
    uint64_t parent;
    return process_stat(pid, &field, 1, &parent) == 0 ? (pid_t)parent : 0;
}

static bool is_noted(const struct launcher *launcher, pid_t pid)
{
    for (unsigned i = 0; i < launcher->waiting_count; i++)
        if (launcher->waiting[i].pid == pid)
            return true;
    return false;
}

static void note(struct launcher *launcher, pid_t pid)
{
    if (is_noted(launcher, pid) || launcher->waiting_count == LAUNCHER_WAITING_MAX)
        return;
    int pidfd = pidfd_open(pid, 0);
    if (pidfd < 0)
        return;
    launcher->waiting[launcher->waiting_count].pid = pid;
    launcher->waiting[launcher->waiting_count++].pidfd = pidfd;
}
