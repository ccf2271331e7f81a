/*
 * porter.c - belay-porter: starts what a user's ranks ask for outside of their job (common/wire/porter.h).
 *
 *     belay-porter RUNDIR expect JOB      become the porter, unless there is one: a step of Slurm's job
 * begins belay-porter RUNDIR release JOB     tell the porter that the job has ended here, and is to run again
 *     belay-porter RUNDIR forget JOB      ... and is not to run again
 *
 * Slurm's plugin runs it as the job's user. It returns when a porter serves, or has been told. The porter
 * ends when no step is expected to ask, and no agent is left. It starts two programs only, those beside it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/file_id.h"
#include "common/util/log.h"
#include "common/wire/client.h"
#include "common/wire/message.h"
#include "common/wire/peer.h"
#include "common/wire/porter.h"
#include "common/wire/rundir.h"
#include "slurm-plugin/own_path.h"

#define EXPECTED_MAX 256u
#define EXPECT_MS 60000 /* from the begin of a step to what its ranks ask for */
#define LOOK_MS 500
#define ASK_MS 10000
#define CLIENT_S 10   /* for its request */
#define OTHER_MS 5000 /* for another porter that begins or ends */
#define ENVIRONMENT_MAX 256u

/* A job of Slurm's whose step has begun. */
struct expected {
    uint32_t job;
    int64_t until_ms;
};

static const char *rundir;
static struct expected expected[EXPECTED_MAX];
static unsigned expected_count;
static unsigned children; /* that serve a client */

/* ---- one client, in a process of its own ---- */

static bool find_program(Belay__Wire__PorterProgram program, char path[PATH_MAX])
{
    static const char *const names[] = {[BELAY__WIRE__PORTER_PROGRAM__PORTER_PROGRAM_ARBITER] =
                                            "belay-arbiter",
                                        [BELAY__WIRE__PORTER_PROGRAM__PORTER_PROGRAM_RELAY] = "belay-relay"};
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length < 0 || (size_t)program >= sizeof names / sizeof *names || !names[program])
        return false;
    path[length] = '\0';
    char *name = strrchr(path, '/');
    size_t room = name ? PATH_MAX - (size_t)(name + 1 - path) : 0;
    return name && (size_t)snprintf(name + 1, room, "%s", names[program]) < room;
}

/* Ours, and of the client's what is Belay's: the rest of it is none of this node's business. */
static char **make_environment(const Belay__Wire__PorterRequest *request)
{
    static char *list[ENVIRONMENT_MAX];
    size_t used = 0;
    for (size_t i = 0; environ[i] && used + 1 < ENVIRONMENT_MAX; i++)
        if (strncmp(environ[i], "BELAY_", 6) != 0)
            list[used++] = environ[i];
    for (size_t i = 0; i < request->n_environment && used + 1 < ENVIRONMENT_MAX; i++)
        if (!strncmp(request->environment[i], "BELAY_", 6))
            list[used++] = request->environment[i];
    list[used] = NULL;
    return list;
}

static int spawn(const char *path, char *const argv[], char **environment, const char *cwd, const int *fds,
                 unsigned fd_count, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    for (unsigned i = 0; i < fd_count; i++)
        posix_spawn_file_actions_adddup2(&actions, fds[i], (int)i);
    posix_spawn_file_actions_addclosefrom_np(&actions, fd_count > 3 ? (int)fd_count : 3);
    posix_spawn_file_actions_addchdir_np(&actions, cwd);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    int code = posix_spawn(pid, path, &actions, &attributes, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return code;
}

/* The exit status, or 128 and the signal that has ended it. */
static int await(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return EXIT_FAILURE;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Its descriptors must not be among those that they become. */
static void lift(int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, (int)PORTER_FDS_MAX);
}

static int start(const Belay__Wire__PorterRequest *request, int *fds, unsigned fd_count,
                 struct belay_error *err)
{
    char path[PATH_MAX];
    pid_t pid;
    if (fd_count < 3 || fd_count > PORTER_FDS_MAX || !find_program(request->program, path))
        return belay_error_set(err, EINVAL, "the porter is asked for something that makes no sense");
    char **argv = calloc(request->n_arguments + 2, sizeof *argv);
    if (!argv)
        return belay_error_set(err, ENOMEM, "out of memory");
    argv[0] = path;
    if (request->n_arguments > 0)
        memcpy(argv + 1, request->arguments, request->n_arguments * sizeof *argv);
    lift(fds, fd_count);
    int code = spawn(path, argv, make_environment(request), request->cwd[0] ? request->cwd : "/", fds,
                     fd_count, &pid);
    for (unsigned i = 0; i < fd_count; i++)
        close(fds[i]);
    free(argv);
    return code == 0 ? await(pid) : belay_error_set(err, code, "cannot start %s: %s", path, strerror(code));
}

/* `belay clean` of what the job of Slurm's has left, once it has ended. */
static int forget(uint32_t job, struct belay_error *err)
{
    char path[PATH_MAX], number[16], variable[PATH_MAX + 16];
    char *const argv[] = {path, (char *)(uintptr_t) "clean", (char *)(uintptr_t) "--slurm-job", number, NULL};
    const char *const search = getenv("PATH");
    char words[PATH_MAX];
    snprintf(words, sizeof words, "PATH=%s", search ? search : "/usr/bin:/bin");
    char *environment[] = {variable, words, NULL};
    pid_t pid;
    if (own_path_of_belay(path, err) < 0)
        return -1;
    snprintf(number, sizeof number, "%u", job);
    snprintf(variable, sizeof variable, "BELAY_RUNDIR=%s", rundir);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int fds[3] = {null, null, null};
    lift(fds, 3);
    int code = spawn(path, argv, environment, "/", fds, 3, &pid);
    return code == 0 ? await(pid) : belay_error_set(err, code, "cannot start %s: %s", path, strerror(code));
}

static void answer(int sock, int status, const char *error)
{
    struct belay_error ignored;
    Belay__Wire__PorterReply reply = BELAY__WIRE__PORTER_REPLY__INIT;
    reply.version = PORTER_VERSION;
    reply.status = status;
    reply.error = (char *)(uintptr_t)error;
    message_send(sock, &reply.base, NULL, 0, &ignored);
}

/* In its own process. */
static void serve_start(int sock, const Belay__Wire__PorterRequest *request, int *fds, unsigned fd_count)
{
    struct belay_error err = {0};
    signal(SIGCHLD, SIG_DFL);
    int status = start(request, fds, fd_count, &err);
    answer(sock, status, status < 0 ? err.text : "");
    _exit(EXIT_SUCCESS);
}

static void serve_forget(uint32_t job)
{
    struct belay_error err;
    signal(SIGCHLD, SIG_DFL);
    forget(job, &err);
    _exit(EXIT_SUCCESS);
}

/* ---- the porter ---- */

static void expect(uint32_t job)
{
    unsigned at = 0;
    while (at < expected_count && expected[at].job != job)
        at++;
    if (at == EXPECTED_MAX)
        at = 0; /* so many jobs of one user begin on one node within a minute: the rule is for fewer */
    else if (at == expected_count)
        expected_count++;
    expected[at] = (struct expected){job, clock_now_ms() + EXPECT_MS};
}

static void release(uint32_t job)
{
    for (unsigned i = 0; i < expected_count; i++)
        if (expected[i].job == job)
            expected[i--] = expected[--expected_count];
}

static bool is_expecting(void)
{
    int64_t now_ms = clock_now_ms();
    for (unsigned i = 0; i < expected_count; i++)
        if (expected[i].until_ms > now_ms)
            return true;
    return false;
}

/* In a process of its own, since it takes time. */
static void fork_for(int sock, const Belay__Wire__PorterRequest *request, int *fds, unsigned fd_count)
{
    bool is_start = request->task == BELAY__WIRE__PORTER_TASK__PORTER_TASK_START;
    pid_t pid = fork();
    if (pid == 0 && is_start)
        serve_start(sock, request, fds, fd_count);
    if (pid == 0)
        serve_forget(request->slurm_job);
    if (pid < 0 && is_start)
        answer(sock, -1, "the porter of this node cannot start another process");
    children += pid > 0;
}

static void take_request(int sock, const Belay__Wire__PorterRequest *request, int *fds, unsigned fd_count)
{
    switch (request->task) {
    case BELAY__WIRE__PORTER_TASK__PORTER_TASK_EXPECT:
        expect(request->slurm_job);
        answer(sock, 0, "");
        break;
    case BELAY__WIRE__PORTER_TASK__PORTER_TASK_START:
        fork_for(sock, request, fds, fd_count);
        break;
    case BELAY__WIRE__PORTER_TASK__PORTER_TASK_RELEASE:
        release(request->slurm_job);
        answer(sock, 0, "");
        break;
    case BELAY__WIRE__PORTER_TASK__PORTER_TASK_FORGET:
        release(request->slurm_job);
        answer(sock, 0, "");
        fork_for(sock, request, NULL, 0);
        break;
    default:
        answer(sock, -1,
               "the porter of this node does not know what it is asked for: it has another version");
    }
}

static void take_client(int listener)
{
    const struct timeval limit = {.tv_sec = CLIENT_S};
    struct belay_error ignored;
    struct ucred peer;
    uint8_t *bytes = NULL;
    int fds[MESSAGE_MAX_FDS];
    unsigned fd_count = 0;
    int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (sock < 0)
        return;
    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (peer_check_client(sock, &peer) == 0) {
        ssize_t length = message_receive(sock, &bytes, fds, &fd_count, &ignored);
        Belay__Wire__PorterRequest *request =
            length > 0 ? belay__wire__porter_request__unpack(NULL, (size_t)length, bytes) : NULL;
        if (request && request->version != PORTER_VERSION)
            answer(sock, -1, "");
        else if (request)
            take_request(sock, request, fds, fd_count);
        if (request)
            belay__wire__porter_request__free_unpacked(request, NULL);
        free(bytes);
        for (unsigned i = 0; i < fd_count; i++)
            close(fds[i]);
    }
    close(sock);
}

/*
 * An agent that leaves removes its socket; that of one that was killed refuses. A connection makes the agent
 * stay for a second, so there are few of them.
 */
static bool has_agent(void)
{
    static int64_t asked_ms;
    char path[PATH_MAX];
    struct belay_error err;
    snprintf(path, sizeof path, "%s/agent.sock", rundir);
    if (access(path, F_OK) < 0)
        return false;
    if (clock_now_ms() - asked_ms < ASK_MS)
        return true;
    asked_ms = clock_now_ms();
    int sock = agent_reach(rundir, NULL, &err);
    if (sock >= 0)
        close(sock);
    return sock >= 0;
}

static void reap(void)
{
    while (children > 0 && waitpid(-1, NULL, WNOHANG) > 0)
        children--;
}

static void serve(int listener)
{
    struct pollfd client = {.fd = listener, .events = POLLIN};
    for (;;) {
        if (poll(&client, 1, LOOK_MS) > 0)
            take_client(listener);
        reap();
        if (children == 0 && !is_expecting() && !has_agent())
            return;
    }
}

/* ---- its begin and its end ---- */

/* Who holds the lock is the porter. Returns a descriptor; -1: somebody else is, or err. */
static int take_lock(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && file_id_is_at(fd, AT_FDCWD, path))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int listen_at(const char *path, struct belay_error *err)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof name.sun_path)
        return belay_error_set(err, ENAMETOOLONG, "the run directory's path is too long");
    strcpy(name.sun_path, path);
    unlink(path); /* of one that was killed: the lock is ours */
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock >= 0 && bind(sock, (struct sockaddr *)&name, sizeof name) == 0 && listen(sock, SOMAXCONN) == 0)
        return sock;
    belay_error_errno(err, "cannot listen in %s", rundir);
    if (sock >= 0)
        close(sock);
    return -1;
}

/* Nobody is to wait for the end of it. */
static void go_to_background(void)
{
    pid_t pid = fork();
    if (pid > 0)
        _exit(EXIT_SUCCESS);
    setsid();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
}

static int become_porter(const char *lock, uint32_t job, struct belay_error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/" PORTER_SOCKET, rundir);
    int listener = listen_at(path, err);
    if (listener < 0)
        return -1;
    expect(job);
    go_to_background();
    serve(listener);
    unlink(path);
    unlink(lock);
    rmdir(rundir); /* if nothing is left in it */
    return 0;
}

static int tell(Belay__Wire__PorterTask task, uint32_t job, struct belay_error *err)
{
    Belay__Wire__PorterRequest request = BELAY__WIRE__PORTER_REQUEST__INIT;
    int sock = porter_connect(rundir, err);
    if (sock < 0)
        return -1;
    request.task = task;
    request.slurm_job = job;
    int rc = porter_ask(sock, &request, NULL, 0, err);
    close(sock);
    return rc;
}

/* One that ends, or begins, at this moment is waited for. */
static int ensure(uint32_t job, struct belay_error *err)
{
    char lock[PATH_MAX];
    if (rundir_make(rundir, err) < 0)
        return -1;
    snprintf(lock, sizeof lock, "%s/porter.lock", rundir);
    for (int64_t until_ms = clock_now_ms() + OTHER_MS; clock_now_ms() < until_ms; poll(NULL, 0, 2)) {
        if (tell(BELAY__WIRE__PORTER_TASK__PORTER_TASK_EXPECT, job, err) == 0)
            return 0;
        int fd = rundir_make(rundir, err) < 0 ? -1 : take_lock(lock);
        if (fd >= 0)
            return become_porter(lock, job, err);
    }
    return -1;
}

int main(int argc, char **argv)
{
    struct belay_error err = {0};
    char *end = NULL;
    unsigned long job = argc == 4 ? strtoul(argv[3], &end, 10) : 0;
    if (argc != 4 || argv[1][0] != '/' || strlen(argv[1]) > PATH_MAX - 32 || !end || *end ||
        job > UINT32_MAX) {
        log_error("belay-porter is started by Slurm's plugin");
        return EXIT_FAILURE;
    }
    rundir = argv[1];
    int rc = -1;
    if (!strcmp(argv[2], "expect"))
        rc = ensure((uint32_t)job, &err);
    else
        rc = tell(!strcmp(argv[2], "forget") ? BELAY__WIRE__PORTER_TASK__PORTER_TASK_FORGET
                                             : BELAY__WIRE__PORTER_TASK__PORTER_TASK_RELEASE,
                  (uint32_t)job, &err);
    if (rc == 0)
        return EXIT_SUCCESS;
    log_error("%s", err.text);
    return EXIT_FAILURE;
}
