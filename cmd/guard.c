#include "cmd/guard.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/session.h"

#define ENDS_ITSELF_MS 2000 /* from belay's end on; mpirun takes a second */
#define PATIENCE_MS 10000   /* between asking and killing, as in watch.c */

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

static bool is_gone_within(int launcher, int timeout_ms)
{
    struct pollfd end = {.fd = launcher, .events = POLLIN};
    int rc;
    do {
        rc = poll(&end, 1, timeout_ms);
    } while (rc < 0 && errno == EINTR);
    return rc > 0;
}

/* belay is gone. */
static void end_launcher(int launcher, const atomic_bool *has_asked)
{
    if (is_gone_within(launcher, ENDS_ITSELF_MS))
        return;
    if (!*has_asked)
        pidfd_send_signal(launcher, SIGTERM, NULL, 0);
    if (is_gone_within(launcher, PATIENCE_MS))
        return;
    pidfd_send_signal(launcher, SIGKILL, NULL, 0);
    is_gone_within(launcher, -1);
}

/* Belay ends us once it has reaped the launcher and looked after what that has left. */
static void __attribute__((noreturn)) watch(int belay, int launcher, const struct guard *guard)
{
    prctl(PR_SET_NAME, "belay-guard");
    setpgid(0, 0); /* signals to belay's group, and the terminal's, are not meant for it */
    close_others(belay, launcher);
    is_gone_within(belay, -1);
    end_launcher(launcher, guard->has_asked);
    session_remove(guard->session_base, guard->launcher);
    _exit(0);
}

int guard_start(struct guard *guard, pid_t launcher, const char *session_base, struct belay_error *err)
{
    atomic_bool *has_asked =
        mmap(NULL, sizeof *has_asked, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int belay_fd = pidfd_open(getpid(), 0), launcher_fd = pidfd_open(launcher, 0);
    const struct guard made = {.has_asked = has_asked, .launcher = launcher, .session_base = session_base};
    pid_t pid = has_asked == MAP_FAILED || belay_fd < 0 || launcher_fd < 0 ? -1 : fork();
    if (pid == 0)
        watch(belay_fd, launcher_fd, &made);
    if (pid < 0)
        belay_error_errno(err, "cannot start a process that watches over the launch");
    close_if_open(belay_fd);
    close_if_open(launcher_fd);
    if (pid > 0) {
        *guard = made;
        guard->pid = pid;
    } else if (has_asked != MAP_FAILED) {
        munmap(has_asked, sizeof *has_asked);
    }
    return pid > 0 ? 0 : -1;
}

void guard_note_asked(const struct guard *guard)
{
    if (guard->pid)
        *guard->has_asked = true;
}

void guard_end(struct guard *guard)
{
    if (guard->pid == 0)
        return;
    session_remove(guard->session_base, guard->launcher); /* first: if we are killed meanwhile, it does so */
    kill(guard->pid, SIGKILL);
    while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    munmap(guard->has_asked, sizeof *guard->has_asked);
    *guard = (struct guard){0};
}
