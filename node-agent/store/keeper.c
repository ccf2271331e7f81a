#include "node-agent/store/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#define HASH_NONFATAL_OOM 1 /* uthash would end the process */
#include <uthash.h>

#include "common/util/log.h"
#include "common/wire/peer.h"

#define ANSWER_SECONDS 5
#define RUNDIR_BYTES ((int)(sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof "/" KEEPER_SOCKET + 1))

extern char **environ;

/* What was handed over, so that a new keeper can be given it again. */
struct item {
    UT_hash_handle hh;
    int fd; /* borrowed */
    char name[KEEPER_NAME_BYTES];
};

struct keeper {
    char rundir[RUNDIR_BYTES];
    char *program;
    int sock;    /* -1: detached */
    int process; /* pidfd of the keeper that we have started, -1: none */
    struct item *items;
};

static struct sockaddr_un socket_name(const struct keeper *keeper);
static int find_or_start(struct keeper *keeper, struct belay_error *err);
static int keeper_connect(struct keeper *keeper, struct belay_error *err);
static int start_and_connect(struct keeper *keeper, struct belay_error *err);
static int ask(struct keeper *keeper, const char *text, int fd, struct belay_error *err);
static int ask_once(struct keeper *keeper, const char *text, int fd, struct belay_error *err);
static int revive(struct keeper *keeper, struct belay_error *err);

struct keeper *keeper_open(const char *rundir, const char *program, struct belay_error *err)
{
    struct keeper *keeper = NULL;
    if (strlen(rundir) >= sizeof keeper->rundir) {
        belay_error_set(err, ENAMETOOLONG, "the run directory's path is too long: %s", rundir);
        return NULL;
    }
    keeper = calloc(1, sizeof *keeper);
    if (!keeper || !(keeper->program = strdup(program))) {
        belay_error_errno(err, "cannot start the keeper");
        free(keeper);
        return NULL;
    }
    keeper->sock = keeper->process = -1;
    snprintf(keeper->rundir, sizeof keeper->rundir, "%s", rundir);
    if (find_or_start(keeper, err) == 0)
        return keeper;
    int code = errno;
    keeper_close(keeper);
    errno = code;
    return NULL;
}

/* One that was killed leaves its socket's name. The directory is ours as long as we serve it. */
static void remove_name_of_dead(const struct keeper *keeper)
{
    struct sockaddr_un name = socket_name(keeper);
    struct pollfd gone = {.fd = keeper->process, .events = POLLIN};
    if (keeper->process >= 0 && poll(&gone, 1, 0) == 1)
        unlink(name.sun_path);
}

void keeper_close(struct keeper *keeper)
{
    if (!keeper)
        return;
    int code = errno;
    char text[KEEPER_MESSAGE_BYTES];
    int fd, is_empty = !keeper->items;
    struct item *item, *next;
    HASH_ITER(hh, keeper->items, item, next)
    {
        HASH_DEL(keeper->items, item);
        free(item);
    }
    if (keeper->sock >= 0) {
        shutdown(keeper->sock, SHUT_WR);
        if (is_empty) /* its end of the connection closes when it leaves */
            keeper_receive(keeper->sock, text, &fd);
        close(keeper->sock);
    }
    if (is_empty)
        remove_name_of_dead(keeper);
    if (keeper->process >= 0)
        close(keeper->process);
    free(keeper->program);
    free(keeper);
    errno = code;
}

void keeper_detach(struct keeper *keeper)
{
    if (!keeper || keeper->sock < 0)
        return;
    close(keeper->sock);
    keeper->sock = -1;
}

int keeper_put(struct keeper *keeper, const char *name, int fd, struct belay_error *err)
{
    char text[KEEPER_MESSAGE_BYTES];
    if (strlen(name) >= KEEPER_NAME_BYTES)
        return belay_error_set(err, ENAMETOOLONG, "a name is too long for the keeper: %s", name);
    snprintf(text, sizeof text, "PUT %s", name);
    if (ask(keeper, text, fd, err) < 0)
        return -1;
    struct item *item;
    HASH_FIND_STR(keeper->items, name, item);
    if (!item) {
        item = calloc(1, sizeof *item);
        if (!item)
            return belay_error_errno(err, "cannot note what the keeper holds");
        snprintf(item->name, sizeof item->name, "%s", name);
        HASH_ADD_STR(keeper->items, name, item);
        if (!item->hh.tbl) {
            free(item);
            return belay_error_set(err, ENOMEM, "cannot note what the keeper holds");
        }
    }
    item->fd = fd;
    return 0;
}

int keeper_drop(struct keeper *keeper, const char *name, struct belay_error *err)
{
    char text[KEEPER_MESSAGE_BYTES];
    struct item *item;
    HASH_FIND_STR(keeper->items, name, item);
    if (item) {
        HASH_DEL(keeper->items, item);
        free(item);
    }
    snprintf(text, sizeof text, "DROP %s", name);
    return ask(keeper, text, -1, err);
}

int keeper_retain(struct keeper *keeper, uint64_t retain_ms, struct belay_error *err)
{
    char text[KEEPER_MESSAGE_BYTES];
    snprintf(text, sizeof text, "RETAIN %llu", (unsigned long long)retain_ms);
    return ask(keeper, text, -1, err);
}

int keeper_list(struct keeper *keeper, void (*each)(void *context, const char *name, int fd), void *context,
                struct belay_error *err)
{
    char text[KEEPER_MESSAGE_BYTES];
    int fd;
    if (keeper_send(keeper->sock, "LIST", -1) < 0)
        return belay_error_errno(err, "cannot ask the keeper");
    while (keeper_receive(keeper->sock, text, &fd) > 0) {
        if (!strcmp(text, "END"))
            return 0;
        if (fd == KEEPER_FD_LOST)
            return belay_error_set(
                err, EMFILE,
                "the keeper holds more than this agent may take up: raise the hard limit of "
                "descriptors (ulimit -Hn) and start it again; nothing is lost");
        if (!strncmp(text, "ITEM ", 5) && fd >= 0)
            each(context, text + 5, fd);
        else if (fd >= 0)
            close(fd);
    }
    return belay_error_errno(err, "the keeper does not answer");
}

/* One that is there and cannot be reached holds what another would not know of: it is not replaced. */
static int find_or_start(struct keeper *keeper, struct belay_error *err)
{
    if (keeper_connect(keeper, err) == 0)
        return 0;
    return errno == ENOENT || errno == ECONNREFUSED ? start_and_connect(keeper, err) : -1;
}

/* keeper_open() has seen to the length. */
static struct sockaddr_un socket_name(const struct keeper *keeper)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%.*s/" KEEPER_SOCKET, RUNDIR_BYTES - 1, keeper->rundir);
    return name;
}

static int keeper_connect(struct keeper *keeper, struct belay_error *err)
{
    struct sockaddr_un name = socket_name(keeper);
    struct timeval limit = {.tv_sec = ANSWER_SECONDS};
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return belay_error_errno(err, "cannot make a socket for the keeper");
    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    int rc = connect(sock, (struct sockaddr *)&name, sizeof name);
    if (rc < 0)
        belay_error_errno(err, "cannot reach the keeper");
    if (rc < 0 || peer_check_server(sock, err) < 0) {
        int code = errno;
        close(sock);
        errno = code;
        return -1;
    }
    keeper->sock = sock;
    return 0;
}

/* The keeper inherits a socket that listens already: there is nothing to wait for. */
static int start_and_connect(struct keeper *keeper, struct belay_error *err)
{
    struct sockaddr_un name = socket_name(keeper);
    char *argv[] = {keeper->program, "--rundir", keeper->rundir, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t pid;

    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (listener < 0)
        return belay_error_errno(err, "cannot make a socket for the keeper");
    unlink(name.sun_path);
    if (bind(listener, (struct sockaddr *)&name, sizeof name) < 0 || listen(listener, 8) < 0) {
        belay_error_errno(err, "cannot listen on %s", name.sun_path);
        close(listener);
        return -1;
    }
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    /* In our session: see the agent's main.c. */
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, listener, KEEPER_LISTEN_FD);
    for (int fd = 0; fd < 3; fd++) /* nothing of whoever started us is held */
        posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_addclosefrom_np(&actions, KEEPER_LISTEN_FD + 1);
    int code = posix_spawn(&pid, keeper->program, &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (code == 0)
        keeper->process = pidfd_open(pid, 0);
    int rc = code ? belay_error_set(err, code, "cannot start %s: %s%s", keeper->program, strerror(code),
                                    code == EAGAIN ? " (ulimit -u, TasksMax of the cgroup)" : "")
                  : keeper_connect(keeper, err);
    close(listener);
    if (rc < 0) {
        code = errno;
        unlink(name.sun_path);
        errno = code;
    }
    return rc;
}

static int ask(struct keeper *keeper, const char *text, int fd, struct belay_error *err)
{
    if (keeper->sock < 0 || ask_once(keeper, text, fd, err) == 0)
        return 0;
    if (errno == EPROTO || errno == EMFILE) /* it has answered */
        return -1;
    return revive(keeper, err) < 0 ? -1 : ask_once(keeper, text, fd, err);
}

static int ask_once(struct keeper *keeper, const char *text, int fd, struct belay_error *err)
{
    char reply[KEEPER_MESSAGE_BYTES];
    int came;
    if (keeper_send(keeper->sock, text, fd) < 0)
        return belay_error_errno(err, "cannot reach the keeper");
    ssize_t got = keeper_receive(keeper->sock, reply, &came);
    if (came >= 0)
        close(came);
    if (got <= 0)
        return belay_error_set(err, got ? errno : ECONNRESET, "the keeper does not answer");
    if (!strcmp(reply, "FULL"))
        return belay_error_set(err, EMFILE, "the keeper may hold no more descriptors (ulimit -Hn)");
    return strcmp(reply, "OK") ? belay_error_set(err, EPROTO, "the keeper refused: %s", text) : 0;
}

/* One that does not answer may live on; what it holds is about to be another's. */
static void end_process(struct keeper *keeper)
{
    if (keeper->process < 0)
        return;
    pidfd_send_signal(keeper->process, SIGKILL, NULL, 0);
    close(keeper->process);
    keeper->process = -1;
}

/* The keeper was killed. Nothing is lost as long as we live: start another and hand everything over. */
static int revive(struct keeper *keeper, struct belay_error *err)
{
    log_warning("the keeper is gone; starting another");
    close(keeper->sock);
    keeper->sock = -1;
    end_process(keeper);
    if (start_and_connect(keeper, err) < 0)
        return -1;
    for (struct item *item = keeper->items; item; item = item->hh.next) {
        char text[KEEPER_MESSAGE_BYTES];
        snprintf(text, sizeof text, "PUT %s", item->name);
        if (ask_once(keeper, text, item->fd, err) < 0)
            return -1;
    }
    return 0;
}
