#include "cmd/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/launch_line.h"
#include "cmd/launcher.h"
#include "cmd/session.h"
#include "cmd/string_list.h"

/* read(2) of exactly `bytes`, interrupted or in pieces. False if the end or an error comes before. */
static bool read_all(int fd, void *buffer, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = read(fd, (char *)buffer + done, bytes - done);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

static void close_if_open(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void reap(struct launch *launch)
{
    while (waitpid(launch->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    close_if_open(&launch->go_fd);
    close_if_open(&launch->fail_fd);
    launch_reaped(launch);
}

/* Is there a file of this name in a folder of PATH that can be looked into? */
static bool is_in_path(const char *program)
{
    char path[PATH_MAX];
    const char *at = getenv("PATH");
    bool is_there = false;
    while (!is_there && at && *at) {
        int length = (int)strcspn(at, ":");
        if (snprintf(path, sizeof path, "%.*s/%s", length, at, program) < PATH_MAX)
            is_there = access(path, F_OK) == 0;
        at += length + (at[length] == ':');
    }
    return is_there;
}

/* What the child waits for; as many bytes of words follow. */
struct order {
    uint32_t epoch;
    uint32_t placement_bytes; /* 0: there are none */
};

/* The names of hosts that have ranks, with commas, to be freed; NULL with errno. */
static char *name_used(const struct hosts *hosts, const char *const *names, uint32_t *count)
{
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        return NULL;
    *count = 0;
    for (uint32_t node = 0; node < hosts->count; node++) {
        uint32_t rank = 0;
        while (rank < hosts->ranks && names[rank] != hosts->of[node].name)
            rank++;
        if (rank < hosts->ranks)
            fprintf(stream, "%s%s", (*count)++ ? "," : "", hosts->of[node].name);
    }
    if (fclose(stream) == 0)
        return text;
    free(text);
    errno = ENOMEM;
    return NULL;
}

/* The user's line with each rank on the host of its place, and these hosts; NULL with errno. */
static char **place_ranks(const struct launch_spec *spec, const char *placement,
                          struct launch_variables *variables)
{
    const struct hosts *hosts = spec->hosts;
    const struct launcher *launcher = launcher_of(spec->argv[0]);
    const char **names = calloc((size_t)hosts->ranks + 1, sizeof *names);
    bool is_fit = names != NULL;
    for (uint32_t rank = 0, node; is_fit && rank < hosts->ranks; rank++) {
        is_fit = placement_find(placement, rank, hosts->ranks, &node, NULL) == 0 && node < hosts->count;
        names[rank] = is_fit ? hosts->of[node].name : NULL;
    }
    if (names && (!is_fit || !launcher))
        errno = EINVAL;
    is_fit = is_fit && launcher && (variables->nodes = name_used(hosts, names, &variables->node_count));
    char **argv = is_fit ? launcher->place(spec->argv, (char *const *)names, hosts->ranks) : NULL;
    int code = errno;
    free(names);
    errno = code;
    return argv;
}

/* The child: redirect, build the line with the epoch, execute. Only returns on failure, with errno. */
static void execute(const struct launch_spec *spec, uint32_t epoch, const char *placement)
{
    struct launch_variables variables = {
        .preload = spec->preload,
        .name = spec->name,
        .rundir = spec->rundir,
        .epoch = epoch,
        .placement = placement,
    };
    bool is_placed = spec->hosts && spec->is_placed && placement;
    char **line = is_placed ? place_ranks(spec, placement, &variables) : (char **)spec->argv; /* only read */
    if (!line || (spec->hosts && !(variables.hosts = hosts_words(spec->hosts))))
        return;
    char **argv = launch_line_build(line, spec->environment, &variables);
    char **environment = launch_environment_build(spec->argv, spec->environment, &variables);
    if (!argv || !environment)
        return;
    if ((spec->in_fd >= 0 && dup2(spec->in_fd, STDIN_FILENO) < 0) ||
        (spec->out_fd >= 0 && dup2(spec->out_fd, STDOUT_FILENO) < 0) ||
        (spec->err_fd >= 0 && dup2(spec->err_fd, STDERR_FILENO) < 0))
        return;
    environ = environment; /* before the search, so that a recorded PATH counts */
    sigprocmask(SIG_SETMASK, spec->signal_mask, NULL);
    execvp(argv[0], argv);
    /* A folder of PATH that may not be entered gives EACCES, too; a shell would say "not found" then. */
    if (errno == EACCES && !strchr(argv[0], '/') && !is_in_path(argv[0]))
        errno = ENOENT;
}

static void run_child(const struct launch_spec *spec, int go_fd, int fail_fd)
{
    struct order order;
    char *placement = NULL;
    if (spec->is_own_group)
        setpgid(0, 0);
    if (!read_all(go_fd, &order, sizeof order)) /* belay has given up, or is gone */
        _exit(EXIT_FAILURE);
    if (order.placement_bytes > 0 && (!(placement = calloc(1, (size_t)order.placement_bytes + 1)) ||
                                      !read_all(go_fd, placement, order.placement_bytes)))
        _exit(EXIT_FAILURE);
    execute(spec, order.epoch, placement);
    int code = errno;
    ssize_t ignored = write(fail_fd, &code, sizeof code);
    (void)ignored;
    _exit(EXIT_FAILURE);
}

int launch_fork(struct launch *launch, const struct launch_spec *spec, struct belay_error *err)
{
    int go[2] = {-1, -1}, fail[2] = {-1, -1};
    if (pipe2(go, O_CLOEXEC) || pipe2(fail, O_CLOEXEC)) {
        belay_error_errno(err, "cannot make a pipe");
        goto fail;
    }
    pid_t pid = fork();
    if (pid < 0) {
        belay_error_errno(err, "cannot start a process");
        goto fail;
    }
    if (pid == 0) {
        close(go[1]);
        run_child(spec, go[0], fail[1]);
    }
    close(go[0]);
    close(fail[1]);
    *launch = (struct launch){.pid = pid, .go_fd = go[1], .fail_fd = fail[0]};
    if (guard_start(&launch->guard, pid, session_base(spec->argv, spec->environment), err) == 0)
        return 0;
    launch_cancel(launch);
    return -1;
fail:
    for (int i = 0; i < 2; i++) {
        close_if_open(&go[i]);
        close_if_open(&fail[i]);
    }
    errno = err ? err->code : EIO;
    return -1;
}

int launch_go(struct launch *launch, uint32_t epoch, const char *placement, struct belay_error *err)
{
    int code = 0;
    const struct order order = {.epoch = epoch,
                                .placement_bytes = placement ? (uint32_t)strlen(placement) : 0};
    ssize_t ignored = write(launch->go_fd, &order, sizeof order); /* fails if the child was killed by now */
    if (placement)
        ignored = write(launch->go_fd, placement, order.placement_bytes);
    (void)ignored;
    close_if_open(&launch->go_fd);
    bool has_failed = read_all(launch->fail_fd, &code, sizeof code);
    close_if_open(&launch->fail_fd);
    if (!has_failed)
        return 0;
    reap(launch);
    errno = code;
    return belay_error_errno(err, "cannot start the launch");
}

void launch_cancel(struct launch *launch)
{
    if (launch->pid == 0)
        return;
    kill(launch->pid, SIGKILL);
    reap(launch);
}

void launch_reaped(struct launch *launch)
{
    guard_end(&launch->guard);
    launch->pid = 0;
}
