/*
 * descriptors - whose descriptors are whose, and which numbers they get. --mode says what:
 *   numbers  those that open() and its like give, before MPI_Init and after, across restarts; closing all
 * before MPI_Init; forked children that look at and close what they have foreign  descriptors made by calls
 * that are rarely used, by ioctls, received over sockets: closed, copied, overwritten; files among them go on
 * after a restart limit    as many files as a low RLIMIT_NOFILE allows, none left, in every step raised more
 * files than the limit that the process has started with close    after MPI_Init, closing every number: MPI
 * goes on (natively it would not)
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <mpi.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define MANY 300
#define SOCKET_TYPES 3
#define LOW_LIMIT 64
#define RAISED_LIMIT 2500
#define ABOVE 900 /* numbers from here on are nothing that the program or a library has natively */

extern char **environ;

struct descriptors {
    struct program program;
    int first, second; /* open before MPI_Init, and after */
    int received, pipe[2], received_end;
    int sockets[SOCKET_TYPES][2], event, timer; /* of an event, a timer, one end: the received copy alone */
    int many[RAISED_LIMIT], count;
    long step;
};

static void demand(const struct descriptors *d, bool fact, const char *what)
{
    if (!fact)
        fail(&d->program, "step %ld: %s (%s)", d->step, what, strerror(errno));
}

static int make_file(const struct descriptors *d, const char *kind, int number)
{
    char name[64];
    snprintf(name, sizeof name, "data-%s-%d-%d", kind, d->program.rank, number);
    int fd = open(name, O_RDWR | O_CREAT | O_APPEND, 0600);
    demand(d, fd >= 0, name);
    return fd;
}

/* Writes the step to a descriptor of a file. */
static void write_step(const struct descriptors *d, int fd)
{
    char line[32];
    int length = snprintf(line, sizeof line, "%ld\n", d->step);
    demand(d, write(fd, line, (size_t)length) == length, "writing");
}

/* ---- numbers ---- */

/* What is open at `from` and above, as /proc tells. */
static int count_open(int from)
{
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    int count = 0;
    while (folder && (entry = readdir(folder)))
        count +=
            entry->d_name[0] != '.' && atoi(entry->d_name) >= from && atoi(entry->d_name) != dirfd(folder);
    if (folder)
        closedir(folder);
    return count;
}

/* Everything above standard error, in the three ways that programs have. */
static void close_everything(void)
{
    long end = sysconf(_SC_OPEN_MAX);
    syscall(SYS_close_range, 3u, ~0u, 0);
    closefrom(3);
    for (long fd = 3; fd < end && fd < 5000; fd++)
        close((int)fd);
}

static void before_init(struct descriptors *d)
{
    close_everything();
    d->first = open("/dev/null", O_RDONLY);
    demand(d, d->first == 3, "the first number is 3");
}

static void begin_numbers(struct descriptors *d)
{
    d->second = open("/dev/null", O_RDONLY);
    if (d->program.rank == 1) /* rank 0 may have a trace open */
        printf("open gives %d before MPI_Init, %d after\n", d->first, d->second);
}

/* The lowest free ones, in their order; a closed one is the next again. */
static void step_numbers(struct descriptors *d)
{
    int fds[5], pair[2];
    for (int i = 0; i < 5; i++) {
        fds[i] = make_file(d, "numbers", i);
        demand(d, fds[i] == d->second + 1 + i, "the next number");
    }
    demand(d, close(fds[1]) == 0 && close(fds[3]) == 0 && pipe(pair) == 0, "closing two");
    demand(d, pair[0] == fds[1] && pair[1] == fds[3], "the numbers that are free again");
    demand(d, dup2(fds[0], 1000) == 1000 && dup2(fds[0], 200) == 200, "dup2 to numbers of one's own");
    for (int number = 201; number < ABOVE; number++)
        demand(d, dup2(fds[0], number) == number && close(number) == 0, "dup2 to any number");
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fds[4], &set);
    demand(d, select(fds[4] + 1, &set, NULL, NULL, NULL) == 1, "select");
    close(1000);
    close(200);
    for (int i = 0; i < 5; i++) {
        if (i % 2 == 0)
            write_step(d, fds[i]);
        close(fds[i]);
    }
    pid_t child = fork();
    if (child == 0) {
        int above = count_open(ABOVE);
        close_everything();
        _exit(above || count_open(3) || open("/dev/null", O_RDONLY) != 3);
    }
    int status, waited = waitpid(child, &status, 0);
    demand(d, waited != child || (WIFEXITED(status) && WEXITSTATUS(status) == 0), "what a child has open");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    char *words[] = {"true", NULL};
    demand(d, posix_spawnp(&child, "true", &actions, NULL, words, environ) == 0, "posix_spawn");
    waitpid(child, &status, 0);
    posix_spawn_file_actions_destroy(&actions);
}

/* ---- foreign ---- */

/* Send a descriptor to oneself; with `is_closed` it is closed while it is on its way. */
static int receive_one(const struct descriptors *d, int sent, bool is_closed)
{
    int pair[2], got = -1;
    char byte = 0, room[CMSG_SPACE(sizeof sent)] = "";
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    demand(d, socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof sent);
    memcpy(CMSG_DATA(head), &sent, sizeof sent);
    demand(d, sendmsg(pair[0], &message, 0) == 1, "a message with a descriptor");
    demand(d, !is_closed || close(sent) == 0, "what is on its way");
    demand(d, recvmsg(pair[1], &message, 0) == 1, "a message with a descriptor");
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
    close(pair[0]);
    close(pair[1]);
    return got;
}

static int receive(const struct descriptors *d, int sent)
{
    return receive_one(d, sent, false);
}

/* A descriptor may be copied, have something put in its place, and be closed once. */
static void use(const struct descriptors *d, const char *what, int fd)
{
    if (fd < 0) /* not on this kernel, or not for this user: neither natively */
        return;
    int copy = dup(fd), other = open("/dev/null", O_RDONLY);
    demand(d, copy >= 0 && close(copy) == 0, what);
    demand(d, dup2(other, fd) == fd && close(other) == 0, what);
    demand(d, close(fd) == 0 && close(fd) == -1 && errno == EBADF, what);
}

static int second_of_a_pair(const struct descriptors *d)
{
    int pair[2];
    demand(d, socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    close(pair[0]);
    return pair[1];
}

static int of_another(int pidfd, int fd)
{
    int got = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
    close(pidfd);
    return got;
}

static int of_a_terminal(const struct descriptors *d)
{
    int terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY), unlock = 0;
    if (terminal < 0 || ioctl(terminal, TIOCSPTLCK, &unlock))
        return -1;
    int peer = ioctl(terminal, TIOCGPTPEER, O_RDWR | O_NOCTTY);
    demand(d, close(terminal) == 0, "a terminal");
    return peer;
}

static int of_a_namespace(void)
{
    int fd = open("/proc/self/ns/mnt", O_RDONLY);
    int owner = ioctl(fd, 0xb701 /* NS_GET_USERNS */);
    close(fd);
    return owner;
}

static int receive_alone(const struct descriptors *d, int fd)
{
    int received = receive(d, fd);
    close(fd);
    return received;
}

static void begin_alone(struct descriptors *d)
{
    static const int types[SOCKET_TYPES] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM};
    struct itimerspec far = {.it_value = {1000, 0}};
    for (int i = 0; i < SOCKET_TYPES; i++) {
        demand(d, socketpair(AF_UNIX, types[i], 0, d->sockets[i]) == 0, "socketpair");
        d->sockets[i][0] = receive_one(d, d->sockets[i][0], true);
        d->sockets[i][1] = receive_alone(d, d->sockets[i][1]);
        demand(d, send(d->sockets[i][0], "0", 1, 0) == 1 && send(d->sockets[i][1], "1", 1, 0) == 1, "send");
    }
    d->event = receive_alone(d, eventfd(3, EFD_SEMAPHORE));
    d->timer = receive_alone(d, timerfd_create(CLOCK_BOOTTIME, 0));
    demand(d, timerfd_settime(d->timer, 0, &far, NULL) == 0, "timerfd_settime");
}

/* What each holds at a line is taken out, and put in again. */
static void use_alone(const struct descriptors *d)
{
    uint64_t one;
    struct itimerspec left;
    char got[2];
    for (int i = 0; i < SOCKET_TYPES; i++) {
        const int *ends = d->sockets[i];
        demand(d, recv(ends[0], got, 2, MSG_DONTWAIT) == 1 && got[0] == '1', "what a pair's first end holds");
        demand(d, recv(ends[1], got, 2, MSG_DONTWAIT) == 1 && got[0] == '0', "what its received end holds");
        demand(d, send(ends[0], "0", 1, 0) == 1 && send(ends[1], "1", 1, 0) == 1, "send");
    }
    demand(d, read(d->event, &one, sizeof one) == sizeof one && one == 1, "a received semaphore");
    demand(d, write(d->event, &one, sizeof one) == sizeof one, "a received semaphore");
    demand(d, timerfd_gettime(d->timer, &left) == 0 && left.it_value.tv_sec > 800, "a received timer");
}

static void begin_foreign(struct descriptors *d)
{
    int file = make_file(d, "received", 0);
    d->received = receive(d, file);
    close(file);
    demand(d, pipe(d->pipe) == 0, "pipe");
    d->received_end = receive(d, d->pipe[1]);
    begin_alone(d);
}

/* What has been received stays a copy of what was sent. */
static void use_received_end(const struct descriptors *d)
{
    char byte = 0;
    demand(d, write(d->received_end, "a", 1) == 1 && write(d->pipe[1], "b", 1) == 1, "both copies of an end");
    demand(d, read(d->pipe[0], &byte, 1) == 1 && byte == 'a', "what the received one has written");
    demand(d, read(d->pipe[0], &byte, 1) == 1 && byte == 'b', "what the other one has written");
}

static void step_foreign(struct descriptors *d)
{
    char name[64];
    struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE,
                                    .size = sizeof event,
                                    .config = PERF_COUNT_SW_TASK_CLOCK,
                                    .exclude_kernel = 1};
    struct {
        unsigned long flags, mode, resolve;
    } how = {O_RDONLY, 0, 0};
    unsigned long rights[2] = {1, 0};
    write_step(d, d->received);
    use_received_end(d);
    use_alone(d);
    use(d, "received", receive(d, d->received));
    use(d, "a pair's", second_of_a_pair(d));
    use(d, "a terminal's", of_a_terminal(d));
    use(d, "a namespace's", of_a_namespace());
    use(d, "pidfd_open", (int)syscall(SYS_pidfd_open, getpid(), 0));
    use(d, "pidfd_getfd", of_another((int)syscall(SYS_pidfd_open, getpid(), 0), d->received));
    use(d, "perf_event_open", (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, 0));
    use(d, "userfaultfd", (int)syscall(SYS_userfaultfd, 1 /* UFFD_USER_MODE_ONLY */));
    use(d, "openat2", (int)syscall(SYS_openat2, AT_FDCWD, "/dev/null", &how, sizeof how));
    use(d, "memfd_secret", (int)syscall(447, 0));
    use(d, "fsopen", (int)syscall(SYS_fsopen, "tmpfs", 0));
    use(d, "open_tree", (int)syscall(SYS_open_tree, AT_FDCWD, "/", 0));
    use(d, "landlock_create_ruleset", (int)syscall(444, rights, 8, 0));
    use(d, "fanotify_init", (int)syscall(SYS_fanotify_init, 0x200, O_RDONLY));
    snprintf(name, sizeof name, "/belay-%ld-%d", (long)getpid(), d->program.rank);
    use(d, "mq_open", (int)mq_open(name, O_RDWR | O_CREAT, 0600, NULL));
    mq_unlink(name);
}

/* ---- limit, raised ---- */

static void open_until(struct descriptors *d, int end)
{
    int fd;
    while (d->count < end && (fd = open("/dev/zero", O_RDONLY)) >= 0)
        d->many[d->count++] = fd;
}

static void begin_limit(struct descriptors *d)
{
    struct rlimit limit;
    d->received = make_file(d, "limit", 0);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = LOW_LIMIT;
    if (d->program.value) /* also what it may be raised to */
        limit.rlim_max = LOW_LIMIT;
    demand(d, setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    open_until(d, MANY);
}

static void step_limit(struct descriptors *d)
{
    char zero = 1;
    struct rlimit limit;
    demand(d, getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == LOW_LIMIT, "the limit");
    demand(d, open("/dev/zero", O_RDONLY) == -1 && errno == EMFILE, "one more than allowed");
    for (int i = 0; i < d->count; i++)
        demand(d, read(d->many[i], &zero, 1) == 1 && zero == 0, "one of many");
    write_step(d, d->received);
    close(d->many[d->count - 1]);
    demand(d, open("/dev/zero", O_RDONLY) == d->many[d->count - 1], "the only number that is free");
}

static void begin_raised(struct descriptors *d)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = RAISED_LIMIT;
    demand(d, setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    open_until(d, 2000);
    demand(d, d->count == 2000, "many files");
}

static void step_raised(struct descriptors *d)
{
    char zero = 1;
    for (int i = 0; i < d->count; i++)
        demand(d, read(d->many[i], &zero, 1) == 1 && zero == 0, "one of many");
}

/* ---- close ---- */

static void step_close(struct descriptors *d)
{
    int trace = d->program.trace_fd;
    for (int fd = 3; fd < 5000; fd++)
        if (fd != trace && close(fd) == -1)
            demand(d, errno == EBADF, "closing what is not one's own");
    syscall(SYS_close_range, (trace > 3 ? (unsigned)trace : 3u) + 1, ~0u, 0);
    int fd = make_file(d, "close", 0), number = 0;
    write_step(d, fd);
    close(fd);
    MPI_Allreduce(&d->program.rank, &number, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    demand(d, number == d->program.ranks * (d->program.ranks - 1) / 2, "MPI");
}

static void begin_nothing(struct descriptors *d)
{
    (void)d;
}

static const struct mode {
    const char *name;
    void (*begin)(struct descriptors *d);
    void (*step)(struct descriptors *d);
} modes[] = {
    {"numbers", begin_numbers, step_numbers}, {"foreign", begin_foreign, step_foreign},
    {"limit", begin_limit, step_limit},       {"raised", begin_raised, step_raised},
    {"close", begin_nothing, step_close},
};

static const struct mode *find_mode(const struct descriptors *d)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(modes[i].name, d->program.mode))
            return &modes[i];
    fail(&d->program, "there is no mode %s", d->program.mode);
}

int main(int argc, char **argv)
{
    static struct descriptors d = {.program = {.steps = 100}};
    before_init(&d);
    MPI_Init(&argc, &argv);
    program_begin(&d.program, "descriptors", argc, argv);
    const struct mode *mode = find_mode(&d);
    mode->begin(&d);
    for (d.step = 1; d.step <= d.program.steps; d.step++) {
        mode->step(&d);
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&d.program, d.step);
    }
    program_end(&d.program);
    MPI_Finalize();
    return 0;
}
