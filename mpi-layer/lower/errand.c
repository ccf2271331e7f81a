/* errand.c - see errand.h. */
#include "mpi-layer/lower/errand.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/wire/board.h"
#include "common/wire/client.h"
#include "common/wire/porter.h"

#define LAUNCHER_FD 3 /* of an arbiter */

/* What a program has for its descriptors 0, 1 and 3; -1: /dev/null, this process's, none. */
struct streams {
    int in, out, launcher;
};

static void prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes,
                    const struct streams *streams)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(actions);
    posix_spawnattr_init(attributes);
    if (streams->in >= 0)
        posix_spawn_file_actions_adddup2(actions, streams->in, STDIN_FILENO);
    else
        posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (streams->out >= 0)
        posix_spawn_file_actions_adddup2(actions, streams->out, STDOUT_FILENO);
    if (streams->launcher >= 0)
        posix_spawn_file_actions_adddup2(actions, streams->launcher, LAUNCHER_FD);
    posix_spawn_file_actions_addclosefrom_np(actions, LAUNCHER_FD + (streams->launcher >= 0));
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &all);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
}

static int spawn(pid_t *pid, char *const argv[], const struct streams *streams, struct belay_error *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char **environment = agent_environment();
    if (!environment)
        return belay_error_set(err, ENOMEM, "no memory to start %s", argv[0]);
    prepare(&actions, &attributes, streams);
    int code = posix_spawn(pid, argv[0], &actions, &attributes, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    free(environment);
    return code == 0 ? 0 : belay_error_set(err, code, "cannot start %s: %s", argv[0], strerror(code));
}

/* It goes to the background, or fails and tells why. */
static int await(pid_t pid, struct belay_error *err)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 0; /* SIGCHLD is ignored here: what it does tells */
    return status == 0 ? 0 : belay_error_set(err, ECANCELED, "%s", "");
}

/* ---- outside of the job ---- */

/* The environment, as the porter takes it. */
static int ask_porter(int sock, Belay__Wire__PorterProgram program, char *const argv[],
                      const struct streams *streams, struct belay_error *err)
{
    Belay__Wire__PorterRequest request = BELAY__WIRE__PORTER_REQUEST__INIT;
    char cwd[PATH_MAX];
    char **environment = agent_environment();
    if (!environment || !getcwd(cwd, sizeof cwd)) {
        free(environment);
        return belay_error_errno(err, "nothing can be asked of the porter of this node");
    }
    request.task = BELAY__WIRE__PORTER_TASK__PORTER_TASK_START;
    request.program = program;
    request.cwd = cwd;
    request.arguments = (char **)(uintptr_t)argv + 1;
    while (argv[1 + request.n_arguments])
        request.n_arguments++;
    request.environment = environment;
    while (environment[request.n_environment])
        request.n_environment++;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int fds[PORTER_FDS_MAX] = {streams->in >= 0 ? streams->in : null,
                                     streams->out >= 0 ? streams->out : null, STDERR_FILENO,
                                     streams->launcher};
    int status = porter_ask(sock, &request, fds, streams->launcher >= 0 ? 4 : 3, err);
    if (null >= 0)
        close(null);
    free(environment);
    if (status < 0)
        return -1;
    return status == 0 ? 0 : belay_error_set(err, ECANCELED, "%s", ""); /* it has told why */
}

/*
 * Outside of the job, where Slurm's plugin has a porter, else as a child that goes to the background. Returns
 * 0 when it is there, or -1 with err.
 */
static int run(Belay__Wire__PorterProgram program, char *const argv[], const struct streams *streams,
               struct belay_error *err)
{
    const char *rundir = getenv("BELAY_RUNDIR");
    struct belay_error ignored;
    pid_t pid = 0;
    int sock = getenv(BOARD_VARIABLE) && rundir ? porter_connect(rundir, &ignored) : -1;
    if (sock < 0)
        return spawn(&pid, argv, streams, err) < 0 ? -1 : await(pid, err);
    int rc = ask_porter(sock, program, argv, streams, err);
    close(sock);
    return rc;
}

int errand_start_arbiter(struct errand *arbiter, char *const argv[], struct belay_error *err)
{
    int out[2];
    int launcher = pidfd_open(getppid(), 0);
    if (launcher < 0)
        return belay_error_errno(err, "the launcher of this rank cannot be watched");
    /* Not among the numbers that it gets. */
    int high = fcntl(launcher, F_DUPFD_CLOEXEC, LAUNCHER_FD + 1);
    close(launcher);
    if (high < 0 || pipe2(out, O_CLOEXEC) < 0) {
        belay_error_errno(err, "cannot make a pipe");
        if (high >= 0)
            close(high);
        return -1;
    }
    arbiter->out = out[0];
    const struct streams streams = {.in = -1, .out = out[1], .launcher = high};
    int rc = run(BELAY__WIRE__PORTER_PROGRAM__PORTER_PROGRAM_ARBITER, argv, &streams, err);
    close(out[1]);
    close(high);
    return rc;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

static bool is_whole(const char *text, size_t used)
{
    return used >= 2 && text[used - 1] == '\n' && text[used - 2] == '\n';
}

/* A byte at a time: what comes behind the empty line is heard later. */
int errand_hear(struct errand *arbiter, char *text, size_t text_bytes, int timeout_ms,
                struct belay_error *err)
{
    struct pollfd ready = {.fd = arbiter->out, .events = POLLIN};
    int64_t until_ms = now_ms() + timeout_ms;
    size_t used = 0;
    while (!is_whole(text, used)) {
        int64_t left = until_ms - now_ms();
        if (left <= 0 || used == text_bytes)
            return belay_error_set(err, ETIMEDOUT, "the arbiter of the job does not answer within %d s",
                                   timeout_ms / 1000);
        if (poll(&ready, 1, (int)left) <= 0)
            continue;
        ssize_t got = read(arbiter->out, text + used, 1);
        if (got == 0)
            return belay_error_set(err, ECONNRESET, "the arbiter of the job has gone");
        if (got < 0 && errno != EINTR)
            return belay_error_errno(err, "the arbiter of the job cannot be heard");
        used += got > 0;
    }
    text[used - 2] = '\0';
    return used > 2 ? 0 : belay_error_set(err, ECANCELED, "%s", "");
}

void errand_end(struct errand *arbiter)
{
    if (arbiter->out >= 0)
        close(arbiter->out);
    arbiter->out = -1;
}

int errand_run_relay(char *const argv[], const uint8_t *input, size_t bytes, struct belay_error *err)
{
    int in[2];
    if (pipe2(in, O_CLOEXEC) < 0)
        return belay_error_errno(err, "cannot make a pipe");
    const struct streams streams = {.in = in[0], .out = -1, .launcher = -1};
    bool is_written = write(in[1], input, bytes) == (ssize_t)bytes; /* a pipe takes so little at once */
    close(in[1]);
    int rc = is_written ? run(BELAY__WIRE__PORTER_PROGRAM__PORTER_PROGRAM_RELAY, argv, &streams, err)
                        : belay_error_errno(err, "the relay takes no key");
    close(in[0]);
    return rc;
}
