#include "cmd/hosts_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/string_list.h"
#include "common/util/clock.h"

#define END_MS 2000 /* that it gets to clean up */
#define LOOK_MS 50

void hosts_child_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int spawn(struct hosts_child *child, char *const argv[], const struct hosts_launch *launch,
                 const int in[2], const int out[2], bool is_quiet)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    if (child->said >= 0)
        posix_spawn_file_actions_adddup2(&actions, child->said, STDERR_FILENO);
    if (is_quiet)
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (launch->signal_mask) {
        posix_spawnattr_setsigmask(&attributes, launch->signal_mask);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    }
    int code = posix_spawnp(&child->pid, argv[0], &actions, &attributes, argv, launch->environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return code;
}

int hosts_child_start(struct hosts_child *child, char **argv, const struct hosts_launch *launch,
                      enum hosts_child_errors errors, struct belay_error *err)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, code = ENOMEM;
    *child = HOSTS_CHILD_NONE;
    if (errors == HOSTS_CHILD_KEEPS) /* without it, it says it at once */
        child->said = memfd_create("belay-launcher", MFD_CLOEXEC);
    if (argv && (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)))
        code = errno;
    else if (argv)
        code = spawn(child, argv, launch, in, out, errors == HOSTS_CHILD_IS_QUIET);
    hosts_child_close(&in[0]);
    hosts_child_close(&out[1]);
    if (code == 0) {
        child->in = in[1];
        child->out = out[0];
    } else {
        child->pid = 0;
        hosts_child_close(&in[1]);
        hosts_child_close(&out[0]);
        hosts_child_close(&child->said);
        belay_error_set(err, code, "cannot run %s: %s", argv ? argv[0] : "the launcher", strerror(code));
    }
    string_list_free(argv);
    return code == 0 ? 0 : -1;
}

bool hosts_child_has_ended(struct hosts_child *child, int *status)
{
    if (child->pid == 0 || waitpid(child->pid, status, WNOHANG) == 0)
        return false;
    child->pid = 0;
    return true;
}

void hosts_child_tell(struct hosts_child *child)
{
    char text[4096];
    ssize_t got;
    if (child->said < 0)
        return;
    for (off_t at = 0; (got = pread(child->said, text, sizeof text, at)) > 0; at += got) {
        ssize_t ignored = write(STDERR_FILENO, text, (size_t)got);
        (void)ignored;
    }
    hosts_child_close(&child->said);
}

bool hosts_child_await(struct hosts_child *child, int timeout_ms)
{
    int status;
    for (int64_t until_ms = clock_now_ms() + timeout_ms; child->pid && clock_now_ms() < until_ms;)
        if (!hosts_child_has_ended(child, &status))
            poll(NULL, 0, LOOK_MS);
    return child->pid == 0;
}

static void close_streams(struct hosts_child *child)
{
    hosts_child_close(&child->in);
    hosts_child_close(&child->out);
    hosts_child_close(&child->said);
}

void hosts_child_kill(struct hosts_child *child)
{
    int status;
    close_streams(child);
    if (child->pid == 0)
        return;
    kill(child->pid, SIGKILL);
    waitpid(child->pid, &status, 0);
    child->pid = 0;
}

void hosts_child_stop(struct hosts_child *child)
{
    close_streams(child);
    if (child->pid == 0)
        return;
    kill(child->pid, SIGTERM);
    if (!hosts_child_await(child, END_MS))
        hosts_child_kill(child);
}
