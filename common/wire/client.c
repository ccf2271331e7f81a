#include "common/wire/client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/wire/message.h"
#include "common/wire/peer.h"
#include "common/wire/rundir.h"

#define CONNECT_DEADLINE_S 15
#define ANSWER_S 5   /* for the agent that agent_find() has found */
#define NO_ANSWER -1 /* is waited for */

extern char **environ;

static int connect_within(const char *rundir, const char *belayd, int limit_s, struct belay_error *err);
static int is_alive(int sock, const char *rundir, int limit_s, struct belay_error *err);
static int start_agent(const char *rundir, const char *belayd, struct belay_error *err);
static void read_complaint(int fd, char *text, size_t text_bytes);
static Belay__Wire__Reply *take_reply(int sock, int *fds, unsigned *fd_count, struct belay_error *err);

int agent_connect(const char *rundir, const char *belayd, struct belay_error *err)
{
    return connect_within(rundir, belayd, 0, err);
}

int agent_find(const char *rundir, struct belay_error *err)
{
    return connect_within(rundir, NULL, ANSWER_S, err);
}

int agent_reach(const char *rundir, const char *belayd, struct belay_error *err)
{
    return connect_within(rundir, belayd, NO_ANSWER, err);
}

/* limit_s: for the answer, 0: none. */
static int connect_within(const char *rundir, const char *belayd, int limit_s, struct belay_error *err)
{
    time_t deadline = time(NULL) + CONNECT_DEADLINE_S;
    for (;;) {
        int sock = peer_connect(rundir, "agent.sock", "agent", err);
        if (sock >= 0 && (limit_s == NO_ANSWER || is_alive(sock, rundir, limit_s, err)))
            return sock;
        int code = errno;
        if (sock >= 0)
            close(sock);
        bool is_absent = code == ENOENT || code == ECONNREFUSED;
        bool is_leaving = code == ECONNRESET || code == EPIPE;
        if ((!is_absent && !is_leaving) || (is_absent && !belayd) || time(NULL) > deadline) {
            errno = code;
            return -1;
        }
        if (is_absent && start_agent(rundir, belayd, err) < 0)
            return -1;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

Belay__Wire__Reply *agent_call(int sock, const Belay__Wire__Request *request, int *fds, unsigned *fd_count,
                               void (*on_event)(const Belay__Wire__Event *event, void *context),
                               void *context, struct belay_error *err)
{
    if (agent_send(sock, request, err) < 0)
        return NULL;
    return agent_receive(sock, fds, fd_count, on_event, context, err);
}

int agent_send(int sock, const Belay__Wire__Request *request, struct belay_error *err)
{
    if (message_send(sock, &request->base, NULL, 0, err) < 0 && errno != EPIPE)
        return -1; /* an agent that has closed the connection may have said why */
    return 0;
}

Belay__Wire__Reply *agent_receive(int sock, int *fds, unsigned *fd_count,
                                  void (*on_event)(const Belay__Wire__Event *event, void *context),
                                  void *context, struct belay_error *err)
{
    for (;;) {
        Belay__Wire__Reply *reply = take_reply(sock, fds, fd_count, err);
        if (!reply)
            return NULL;
        if (reply->body_case == BELAY__WIRE__REPLY__BODY_EVENT) {
            if (on_event)
                on_event(reply->event, context);
            belay__wire__reply__free_unpacked(reply, NULL);
            continue;
        }
        if (reply->error[0] == '\0')
            return reply;
        int code = reply->error_code ? (int)reply->error_code : EINVAL;
        belay_error_set(err, code, "%s", reply->error);
        belay__wire__reply__free_unpacked(reply, NULL);
        errno = code;
        return NULL;
    }
}

/* An agent about to leave may still have accepted us: only an answer says that it stays. */
static int is_alive(int sock, const char *rundir, int limit_s, struct belay_error *err)
{
    const struct timeval limit = {.tv_sec = limit_s}, none = {0};
    Belay__Wire__Ping ping = BELAY__WIRE__PING__INIT;
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    request.body_case = BELAY__WIRE__REQUEST__BODY_PING;
    request.ping = &ping;
    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    Belay__Wire__Reply *reply = agent_call(sock, &request, NULL, NULL, NULL, NULL, err);
    if (!reply && errno == EAGAIN)
        belay_error_set(err, ETIMEDOUT, "the agent in %s does not answer", rundir);
    if (!reply)
        return 0;
    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
    belay__wire__reply__free_unpacked(reply, NULL);
    return 1;
}

/* Not by realpath(): an agent that leaves may just have removed the directory. */
static int make_absolute(const char *path, char absolute[PATH_MAX])
{
    char folder[PATH_MAX] = "";
    if (path[0] != '/' && !getcwd(folder, sizeof folder))
        return -1;
    if (snprintf(absolute, PATH_MAX, "%s%s%s", folder, folder[0] ? "/" : "", path) < PATH_MAX)
        return 0;
    errno = ENAMETOOLONG;
    return -1;
}

/* Run belayd, which returns when an agent listens; what it says on stderr becomes the error. */
static int start_agent(const char *rundir, const char *belayd, struct belay_error *err)
{
    char absolute[PATH_MAX]; /* the agent leaves our directory */
    char *argv[] = {(char *)belayd, "--rundir", absolute, NULL};
    char complaint[300] = "";
    int ends[2], status = 0;
    pid_t pid;
    posix_spawn_file_actions_t actions;

    if (make_absolute(rundir, absolute) < 0)
        return belay_error_errno(err, "cannot use the run directory %s", rundir);
    char **env = agent_environment();
    if (!env || pipe2(ends, O_CLOEXEC) < 0) {
        free(env);
        return belay_error_errno(err, "cannot start the agent");
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    int code = posix_spawn(&pid, belayd, &actions, NULL, argv, env);
    posix_spawn_file_actions_destroy(&actions);
    free(env);
    close(ends[1]);
    if (code == 0)
        read_complaint(ends[0], complaint, sizeof complaint);
    close(ends[0]);
    if (code)
        return belay_error_set(err, code, "cannot start the agent %s: %s", belayd, strerror(code));
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 0; /* SIGCHLD is ignored here: whether it worked, the next connect tells */
    if (status == 0)
        return 0;
    return belay_error_set(err, ESRCH, "the agent did not start: %s",
                           complaint[0] ? complaint : "no reason given");
}

static void read_complaint(int fd, char *text, size_t text_bytes)
{
    size_t used = 0;
    char extra[256];
    for (;;) {
        bool is_full = used + 1 >= text_bytes;
        ssize_t got = is_full ? read(fd, extra, sizeof extra) : read(fd, text + used, text_bytes - 1 - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += is_full ? 0 : (size_t)got;
    }
    text[used] = '\0';
    text[strcspn(text, "\n")] = '\0';
    static const char prefix[] = "belay: ";
    if (!strncmp(text, prefix, sizeof prefix - 1))
        memmove(text, text + sizeof prefix - 1, strlen(text) - sizeof prefix + 2);
}

/* Is a variable for the agent? A name that ends in '*' stands for all that begin so. */
static bool is_for_agent(const char *variable)
{
    static const char *const names[] = {"BELAY_*",         "PATH=", "HOME=", "USER=",   "LOGNAME=",
                                        "LANG=",           "LC_*",  "TZ=",   "TMPDIR=", "XDG_RUNTIME_DIR=",
                                        "LD_LIBRARY_PATH="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(variable, names[i], strcspn(names[i], "*")))
            return true;
    return strstr(variable, "SAN_OPTIONS=") != NULL; /* of a build with sanitizers */
}

char **agent_environment(void)
{
    size_t count = 0, kept = 0;
    while (environ && environ[count])
        count++;
    char **env = malloc((count + 1) * sizeof *env);
    if (!env)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (is_for_agent(environ[i]))
            env[kept++] = environ[i];
    env[kept] = NULL;
    return env;
}

static Belay__Wire__Reply *take_reply(int sock, int *fds, unsigned *fd_count, struct belay_error *err)
{
    uint8_t *bytes = NULL;
    int came[MESSAGE_MAX_FDS];
    unsigned came_count = 0, room = fds ? *fd_count : 0;
    ssize_t length = message_receive(sock, &bytes, came, &came_count, err);
    if (length <= 0) {
        if (length == 0)
            belay_error_set(err, ECONNRESET, "the agent has gone");
        return NULL;
    }
    Belay__Wire__Reply *reply = belay__wire__reply__unpack(NULL, (size_t)length, bytes);
    free(bytes);
    if (reply && reply->body_case == BELAY__WIRE__REPLY__BODY_EVENT)
        room = 0; /* nobody takes them */
    for (unsigned i = 0; i < came_count; i++) {
        if (reply && i < room)
            fds[i] = came[i];
        else
            close(came[i]);
    }
    if (!reply) {
        belay_error_set(err, EBADMSG, "the agent sent a malformed reply");
        return NULL;
    }
    if (fd_count && reply->body_case != BELAY__WIRE__REPLY__BODY_EVENT)
        *fd_count = came_count < room ? came_count : room;
    return reply;
}
