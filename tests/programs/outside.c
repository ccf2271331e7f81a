/*
 * outside - what docs/policies.md says of the world outside a rank's memory, in every step: before a restart,
 * where everything works, and after one (the process id is another then), where some of it is gone. --mode
 * says what: children  a child that lives on, pipes to it, a pidfd of it, what a child has left in a pipe,
 * new children sockets   a pair, which goes on; a listener and a connection to it, a pidfd: their next use
 * gives EBADF, and nobody else gets their numbers devices   /dev/null, /dev/full, /dev/urandom, a performance
 * counter with its page watches   inotify: a file, a folder, one that is watched no more; a copy of the
 * descriptor, and epoll pipes     a pipe of 1 MiB that is nearly full, one whose writer has closed it, one
 * with two readers
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <mpi.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/incarnation.h"
#include "tests/programs/program.h"

#define NAME_BYTES 32
#define PIPE_BYTES (1 << 20)
#define PIPE_HELD 900000 /* a write that does not fit into the last page begins another one */

struct outside {
    struct program program;
    long first, process;
    pid_t child;
    bool is_waited_for; /* the child is gone, and has been waited for once */
    int fds[8], count;  /* what a restart does not bring back */
    int to_child, from_child, left_by_child;
    int pair[2], listener, connection[2], watcher;
    int null, full, random;
    const struct perf_event_mmap_page *counted;
    int watcher_copy, epoll, changed;
    int big[2], ended, twice[2], again;
    long step;
    in_port_t port;
};

static void demand(const struct outside *o, bool fact, const char *what)
{
    if (!fact)
        fail(&o->program, "step %ld, %s a restart: %s (%s)", o->step,
             incarnation() == o->first ? "before" : "after", what, strerror(errno));
}

static bool is_restarted(const struct outside *o)
{
    return incarnation() != o->first;
}

static int lose(struct outside *o, int fd)
{
    demand(o, fd >= 0, "a new descriptor");
    return o->fds[o->count++] = fd;
}

/* Descriptors that a restart has taken away report that, and no new file takes the place of one. */
static void check_lost(struct outside *o)
{
    char byte;
    int fresh = open("/dev/null", O_RDWR);
    for (int i = 0; i < o->count; i++) {
        demand(o, fresh != o->fds[i], "the number of a lost descriptor is given to another file");
        demand(o, read(o->fds[i], &byte, 1) == -1 && errno == EBADF, "reading what is gone");
        demand(o, write(o->fds[i], &byte, 1) == -1 && errno == EBADF, "writing to what is gone");
    }
    close(fresh);
}

/* ---- children ---- */

/* Sends back what it gets, until the rank is gone. */
static void echo(int from, int to)
{
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(from, &byte, 1) == 1 && write(to, &byte, 1) == 1)
        ;
    _exit(0);
}

static void begin_children(struct outside *o)
{
    int to[2], from[2], left[2];
    demand(o, pipe(to) == 0 && pipe(from) == 0, "pipe");
    o->child = fork();
    if (o->child == 0) {
        close(to[1]);
        echo(to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    o->to_child = lose(o, to[1]);
    o->from_child = lose(o, from[0]);
    lose(o, (int)syscall(SYS_pidfd_open, o->child, 0));
    demand(o, pipe(left) == 0, "pipe");
    pid_t writer = fork();
    if (writer == 0)
        _exit(write(left[1], "left in the pipe", 16) != 16);
    close(left[1]);
    demand(o, waitpid(writer, NULL, 0) == writer, "a child that writes and ends");
    o->left_by_child = left[0];
}

static void step_children(struct outside *o)
{
    char byte = (char)o->step, back = 0;
    int status, waited = waitpid(o->child, &status, WNOHANG);
    if (is_restarted(o)) {
        bool is_told = waited == o->child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        demand(o, is_told || (o->is_waited_for && waited == -1 && errno == ECHILD),
               "waiting for a lost child");
        o->is_waited_for = true;
        check_lost(o);
    } else {
        demand(o,
               waited == 0 && write(o->to_child, &byte, 1) == 1 && read(o->from_child, &back, 1) == 1 &&
                   back == byte,
               "a child that lives");
    }
    if (o->step == o->program.steps) {
        char text[32] = "";
        demand(o, read(o->left_by_child, text, sizeof text) == 16 && !strcmp(text, "left in the pipe"),
               "what a child has left in a pipe");
        demand(o, read(o->left_by_child, text, sizeof text) == 0, "the end of what a child has left");
    }
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    if (waitpid(child, &status, 0) == child) /* or the line was just here */
        demand(o, WIFEXITED(status) && WEXITSTATUS(status) == 7, "a new child");
}

/* ---- sockets ---- */

static void begin_sockets(struct outside *o)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    demand(o, socketpair(AF_UNIX, SOCK_STREAM, 0, o->pair) == 0, "socketpair");
    o->listener = socket(AF_INET, SOCK_STREAM, 0);
    demand(o,
           bind(o->listener, (struct sockaddr *)&address, bytes) == 0 && listen(o->listener, 5) == 0 &&
               getsockname(o->listener, (struct sockaddr *)&address, &bytes) == 0,
           "a listener");
    o->port = address.sin_port;
    o->connection[0] = socket(AF_INET, SOCK_STREAM, 0);
    demand(o, connect(o->connection[0], (struct sockaddr *)&address, bytes) == 0, "connect");
    o->connection[1] = accept(o->listener, NULL, NULL);
    demand(o, o->connection[1] >= 0, "accept");
    o->watcher = lose(o, (int)syscall(SYS_pidfd_open, getpid(), 0));
}

/* As a program of the network knows it, also when it looks twice. */
static void check_broken(struct outside *o)
{
    char byte = 0;
    for (int i = 0; i < 2; i++) {
        long got = recv(o->connection[i], &byte, 1, MSG_DONTWAIT);
        demand(o, got == 0 || (got == -1 && errno == ECONNRESET), "recv");
        demand(o, send(o->connection[i], &byte, 1, MSG_NOSIGNAL) == -1 && errno == EPIPE, "send");
    }
}

/* Who listened listens again at the same port. */
static void connect_once(struct outside *o)
{
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    demand(o,
           getsockname(o->listener, (struct sockaddr *)&address, &bytes) == 0 && address.sin_port == o->port,
           "the port");
    demand(o, connect(fd, (struct sockaddr *)&address, bytes) == 0, "connect");
    int other = accept(o->listener, NULL, NULL);
    demand(o, other >= 0, "accept");
    close(other);
    close(fd);
}

static void step_sockets(struct outside *o)
{
    char byte = (char)o->step, back = 0;
    demand(o, write(o->pair[0], &byte, 1) == 1 && read(o->pair[1], &back, 1) == 1 && back == byte,
           "the pair");
    if (is_restarted(o)) {
        check_lost(o);
        check_broken(o);
        connect_once(o);
        return;
    }
    demand(o,
           send(o->connection[0], &byte, 1, 0) == 1 && recv(o->connection[1], &back, 1, 0) == 1 &&
               back == byte,
           "the connection");
}

/* ---- devices ---- */

/* Where the user may have none, something else that is lost. */
static void begin_counter(struct outside *o)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr};
    attr.config = PERF_COUNT_SW_TASK_CLOCK;
    attr.exclude_kernel = 1;
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    o->counted = fd < 0 ? MAP_FAILED : mmap(NULL, (size_t)getpagesize(), PROT_READ, MAP_SHARED, fd, 0);
    lose(o, fd < 0 ? (int)syscall(SYS_pidfd_open, getpid(), 0) : fd);
}

static void begin_devices(struct outside *o)
{
    o->null = open("/dev/null", O_RDWR);
    o->full = open("/dev/full", O_WRONLY);
    o->random = open("/dev/urandom", O_RDONLY);
    begin_counter(o);
}

static void step_devices(struct outside *o)
{
    char bytes[16] = "";
    demand(o, write(o->null, bytes, 16) == 16 && read(o->null, bytes, 16) == 0, "/dev/null");
    demand(o, write(o->full, bytes, 16) == -1 && errno == ENOSPC, "/dev/full");
    demand(o, read(o->random, bytes, 16) == 16, "/dev/urandom");
    if (o->counted != MAP_FAILED)
        demand(o, o->counted->size == 0 || !is_restarted(o), "a counter's page is zeros");
    if (is_restarted(o))
        check_lost(o);
}

/* ---- watches ---- */

static void name_watched(const struct outside *o, char name[NAME_BYTES], const char *what)
{
    snprintf(name, NAME_BYTES, "%s-%d", what, o->program.rank);
}

/* The first watch is given up, so the others have the numbers 2 and 4. */
static void begin_watches(struct outside *o)
{
    struct epoll_event event = {.events = EPOLLIN};
    char folder[NAME_BYTES], name[NAME_BYTES];
    name_watched(o, folder, "watched");
    name_watched(o, name, "changed");
    demand(o, mkdir(folder, 0700) == 0, "a folder");
    o->changed = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    o->watcher = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    o->watcher_copy = dup(o->watcher);
    o->epoll = epoll_create1(0);
    demand(o, o->changed >= 0 && o->watcher_copy >= 0, "a file");
    demand(o,
           inotify_add_watch(o->watcher, ".", IN_ATTRIB) == 1 &&
               inotify_add_watch(o->watcher, name, IN_MODIFY) == 2 && inotify_rm_watch(o->watcher, 1) == 0 &&
               inotify_add_watch(o->watcher, "/", IN_ATTRIB) == 3 && inotify_rm_watch(o->watcher, 3) == 0 &&
               inotify_add_watch(o->watcher, folder, IN_CREATE | IN_DELETE) == 4,
           "watching");
    char events[1024];
    demand(o, read(o->watcher, events, sizeof events) > 0, "what ends with a watch");
    demand(o, epoll_ctl(o->epoll, EPOLL_CTL_ADD, o->watcher, &event) == 0, "epoll");
}

static void expect(struct outside *o, int number, uint32_t mask, const char *name)
{
    union {
        struct inotify_event event;
        char bytes[512];
    } got;
    struct epoll_event ready;
    if (epoll_wait(o->epoll, &ready, 1, 0) != 1 && incarnation() != o->process)
        return; /* lost by a restart from here */
    demand(o, epoll_wait(o->epoll, &ready, 1, 0) == 1, "an event");
    ssize_t bytes = read(o->step % 2 ? o->watcher : o->watcher_copy, &got, sizeof got);
    demand(o, bytes == (ssize_t)(sizeof got.event + got.event.len), "one event");
    demand(o, got.event.wd == number && got.event.mask == mask, "the event");
    demand(o, !name || !strcmp(got.event.name, name), "the name of an event");
}

static void step_watches(struct outside *o)
{
    char folder[NAME_BYTES], path[NAME_BYTES + 8];
    name_watched(o, folder, "watched");
    snprintf(path, sizeof path, "%s/made", folder);
    o->process = incarnation();
    demand(o, pwrite(o->changed, &o->step, sizeof o->step, 0) == sizeof o->step, "changing a file");
    expect(o, 2, IN_MODIFY, NULL);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    demand(o, fd >= 0, "making a file");
    close(fd);
    expect(o, 4, IN_CREATE, "made");
    demand(o, unlink(path) == 0, "removing a file");
    expect(o, 4, IN_DELETE, "made");
}

/* ---- pipes ---- */

static void begin_pipes(struct outside *o)
{
    static const char block[PIPE_HELD] = "a block";
    int ended[2];
    demand(o, pipe(o->big) == 0 && fcntl(o->big[1], F_SETPIPE_SZ, PIPE_BYTES) == PIPE_BYTES, "a large pipe");
    demand(o, write(o->big[1], block, sizeof block) == sizeof block, "filling it");
    demand(o, pipe(ended) == 0 && write(ended[1], "the end", 7) == 7 && close(ended[1]) == 0,
           "a pipe that ends");
    o->ended = ended[0];
    demand(o, pipe(o->twice) == 0 && write(o->twice[1], "two", 3) == 3, "a pipe with two readers");
    o->again = dup(o->twice[0]);
}

static void step_pipes(struct outside *o)
{
    static char block[PIPE_HELD + 1];
    demand(o, fcntl(o->big[0], F_GETPIPE_SZ) == PIPE_BYTES, "the size of a pipe");
    demand(o, read(o->big[0], block, 1000) == 1000 && write(o->big[1], block, 1000) == 1000,
           "turning it over");
    char text[8] = "";
    demand(o,
           read(o->step % 2 ? o->again : o->twice[0], text, 8) == 3 && write(o->twice[1], text, 3) == 3 &&
               !strcmp(text, "two"),
           "a pipe with two readers");
    if (o->step < o->program.steps)
        return;
    demand(o, read(o->ended, text, sizeof text) == 7 && !memcmp(text, "the end", 7), "what was in a pipe");
    demand(o, read(o->ended, text, sizeof text) == 0, "the end of a pipe");
    size_t got = 0;
    while (got < PIPE_HELD) {
        ssize_t bytes = read(o->big[0], block, sizeof block);
        demand(o, bytes > 0, "emptying a large pipe");
        got += (size_t)bytes;
    }
    demand(o,
           got == PIPE_HELD && fcntl(o->big[0], F_SETFL, O_NONBLOCK) == 0 &&
               read(o->big[0], block, 1) == -1 && errno == EAGAIN,
           "it held more than was put in");
}

static const struct mode {
    const char *name;
    void (*begin)(struct outside *o);
    void (*step)(struct outside *o);
} modes[] = {
    {"children", begin_children, step_children}, {"sockets", begin_sockets, step_sockets},
    {"devices", begin_devices, step_devices},    {"pipes", begin_pipes, step_pipes},
    {"watches", begin_watches, step_watches},
};

static const struct mode *find_mode(const struct outside *o)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(modes[i].name, o->program.mode))
            return &modes[i];
    fail(&o->program, "there is no mode %s", o->program.mode);
}

int main(int argc, char **argv)
{
    struct outside o = {.program = {.steps = 100}, .first = incarnation()};
    MPI_Init(&argc, &argv);
    program_begin(&o.program, "outside", argc, argv);
    const struct mode *mode = find_mode(&o);
    mode->begin(&o);
    for (o.step = 1; o.step <= o.program.steps; o.step++) {
        mode->step(&o);
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&o.program, o.step);
    }
    if (o.child > 0 && !is_restarted(&o))
        kill(o.child, SIGKILL);
    program_end(&o.program);
    MPI_Finalize();
    return 0;
}
