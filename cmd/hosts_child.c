#include "cmd/hosts_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
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
                      bool is_quiet, struct belay_error *err)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, code = ENOMEM;
    *child = (struct hosts_child){.in = -1, .out = -1};
    if (argv && (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)))
        code = errno;
    else if (argv)
        code = spawn(child, argv, launch, in, out, is_quiet);
    hosts_child_close(&in[0]);
    hosts_child_close(&out[1]);
    if (code == 0) {
        child->in = in[1];
        child->out = out[0];
    } else {
        child->pid = 0;
        hosts_child_close(&in[1]);
        hosts_child_close(&out[0]);
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

void hosts_child_stop(struct hosts_child *child)
{
    int status;
    hosts_child_close(&child->in);
    hosts_child_close(&child->out);
    if (child->pid == 0)
        return;
    kill(child->pid, SIGTERM);
    for (int64_t until_ms = clock_now_ms() + END_MS; child->pid && clock_now_ms() < until_ms;)
        if (!hosts_child_has_ended(child, &status))
            poll(NULL, 0, LOOK_MS);
    if (child->pid == 0)
        return;
    kill(child->pid, SIGKILL);
    waitpid(child->pid, &status, 0);
    child->pid = 0;
}
