/*
 * process_ids - whom a process knows by its id: itself, its threads, its parent, its group, its children, the
 * other ranks of its host. All ids are asked for once; in each step everything that takes or tells one is
 * tried.
 *
 * --mode raised: signals to itself all the time, so that lines come while one is being delivered, and from
 * the next rank, while they are blocked.
 *
 * --mode handed: rank 0 hands its id to another program, which can do nothing with it after a restart.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/incarnation.h"
#include "tests/programs/program.h"

#define PATH_BYTES 64
#define RAISED 1500
#define PENDING_US 20000
#define ONE_PROCESS 1 /* IOPRIO_WHO_PROCESS */

static struct program program = {.steps = 100};
static long step;
static pid_t self, parent, group, session, peer; /* peer: the next rank */
static pid_t helper_id;
static int asynchronous[2], ends[2], file;
static volatile sig_atomic_t sender, from_peer, signals;

static void check(bool is_fine, const char *what)
{
    if (!is_fine)
        fail(&program, "step %ld: %s: %s", step, what, strerror(errno));
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (number == SIGUSR2)
        from_peer = info->si_pid;
    else
        sender = info->si_pid;
    signals++;
}

static void *help(void *argument)
{
    helper_id = gettid();
    pthread_barrier_wait(argument);
    for (;;)
        pause();
    return NULL;
}

static void check_own(void)
{
    check(getpid() == self && gettid() == self, "getpid");
    check(getppid() == parent, "getppid");
    check(getpgrp() == group && getpgid(0) == group && getpgid(self) == group, "getpgid");
    check(getsid(0) == session && getsid(self) == session, "getsid");
    check(setpgid(self, group) == 0 || errno == EPERM, "setpgid");
}

static void check_sent(const char *what, bool is_sent)
{
    check(is_sent && sender == self && signals == 1, what);
    sender = signals = 0;
}

static void check_signals(void)
{
    siginfo_t info;
    sigset_t set;
    struct timespec none = {0, 0};
    sender = signals = 0;
    check_sent("kill", kill(self, SIGUSR1) == 0);
    check_sent("raise", raise(SIGUSR1) == 0);
    check_sent("sigqueue", sigqueue(self, SIGUSR1, (union sigval){.sival_int = 1}) == 0);
    check_sent("tgkill", syscall(SYS_tgkill, self, self, SIGUSR1) == 0);
    check(syscall(SYS_tgkill, self, helper_id, 0) == 0, "tgkill of a thread");
    check(kill(-group, 0) == 0 || errno == EPERM, "kill of the group");
    check(kill(parent, 0) == 0 || errno == EPERM, "kill of the parent");
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    kill(self, SIGRTMIN);
    check(sigtimedwait(&set, &info, &none) == SIGRTMIN && info.si_pid == self, "sigtimedwait");
}

static void check_settings(void)
{
    struct rlimit limit;
    cpu_set_t processors;
    clockid_t clock;
    struct timespec spent, of_self;
    check(prlimit(self, RLIMIT_NOFILE, NULL, &limit) == 0, "prlimit");
    check(sched_getaffinity(self, sizeof processors, &processors) == 0, "sched_getaffinity");
    check(sched_getscheduler(self) == SCHED_OTHER, "sched_getscheduler");
    errno = 0;
    check(getpriority(PRIO_PROCESS, (id_t)self) == getpriority(PRIO_PROCESS, 0) && !errno, "getpriority");
    check(syscall(SYS_ioprio_get, ONE_PROCESS, self) >= 0, "ioprio_get");
    check(clock_getcpuclockid(self, &clock) == 0 && clock_gettime(clock, &spent) == 0,
          "the processor's time");
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &of_self);
    check(of_self.tv_sec - spent.tv_sec <= 1 && of_self.tv_sec >= spent.tv_sec, "the same time as of itself");
    check(syscall(SYS_kcmp, self, self, KCMP_FILE, ends[0], ends[0]) == 0 || errno == EPERM, "kcmp");
}

static void check_descriptors(void)
{
    struct f_owner_ex owner = {F_OWNER_PID, 0};
    struct ucred other = {0, 0, 0};
    socklen_t bytes = sizeof other;
    int fd = (int)syscall(SYS_pidfd_open, self, 0);
    check(fd >= 0 && syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == 0, "pidfd_open");
    close(fd);
    check(fcntl(asynchronous[0], F_GETOWN) == self, "F_GETOWN");
    check(fcntl(asynchronous[0], F_SETOWN, self) == 0, "F_SETOWN");
    check(fcntl(asynchronous[0], F_GETOWN_EX, &owner) == 0 && owner.pid == self, "F_GETOWN_EX");
    owner = (struct f_owner_ex){F_OWNER_TID, helper_id};
    check(fcntl(asynchronous[0], F_SETOWN_EX, &owner) == 0, "F_SETOWN_EX");
    check(fcntl(asynchronous[0], F_GETOWN_EX, &owner) == 0 && owner.pid == helper_id, "a thread as owner");
    check(fcntl(asynchronous[0], F_SETOWN, self) == 0, "F_SETOWN again");
    check(getsockopt(ends[0], SOL_SOCKET, SO_PEERCRED, &other, &bytes) == 0 && other.pid == self,
          "SO_PEERCRED");
}

static void check_path(const char *format, pid_t id)
{
    char path[PATH_BYTES];
    struct stat st;
    struct statx stx;
    snprintf(path, sizeof path, format, id);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    check(fd >= 0 && fstat(fd, &st) == 0, path);
    close(fd);
    check(stat(path, &st) == 0 && lstat(path, &st) == 0, path);
    check(access(path, R_OK) == 0 && faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0, path);
    check(statx(AT_FDCWD, path, 0, STATX_TYPE, &stx) == 0, path);
}

static void check_paths(void)
{
    char text[PATH_BYTES] = "", expected[PATH_BYTES];
    check_path("/proc/%d", self);
    check_path("/proc/%d/stat", self);
    check_path("/proc/%d/fd", self);
    check_path("/proc/%d/task", self);
    check_path("/proc/self/task/%d/comm", helper_id);
    check_path("/proc/%d/comm", helper_id);
    check_path("/proc/%d/stat", parent);
    check_path("/proc/%d/stat", peer);
    snprintf(expected, sizeof expected, "%d", self);
    check(readlink("/proc/self", text, sizeof text - 1) > 0 && !strcmp(text, expected), "/proc/self");
    snprintf(expected, sizeof expected, "/proc/%d/cwd", self);
    check(readlink(expected, text, sizeof text - 1) > 0, expected);
}

static int status_of(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void look_as_child(void)
{
    char path[PATH_BYTES];
    if (getppid() != self)
        _exit(10);
    if (getpid() == self || getpid() != gettid() || getpgrp() != group)
        _exit(11);
    if (kill(getppid(), 0) || kill(getpid(), 0))
        _exit(12);
    snprintf(path, sizeof path, "/proc/%d/stat", getppid());
    if (access(path, R_OK))
        _exit(13);
    _exit(7);
}

static pid_t fork_one(void)
{
    pid_t child = fork();
    if (child == 0)
        look_as_child();
    return child;
}

static pid_t spawn_one(void)
{
    extern char **environ;
    char *const kill_parent[] = {"sh", "-c", "kill -0 $PPID && exit 7", NULL};
    pid_t child = -1;
    return posix_spawn(&child, "/bin/sh", NULL, NULL, kill_parent, environ) ? -1 : child;
}

/* Done again if a restart has taken the child. */
static void check_child(pid_t (*start)(void), const char *what)
{
    long before;
    int status;
    do {
        before = incarnation();
        status = status_of(start());
    } while (status != 7 && incarnation() != before);
    errno = status;
    check(status == 7, what);
}

static void check_children(void)
{
    check_child(fork_one, "what a child knows");
    check_child(spawn_one, "a program that knows its parent");
}

/* The next rank gets a signal, is read, and holds a lock. */
static void check_peer(void)
{
    static long value;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = program.rank, .l_len = 1};
    struct flock other = lock;
    long got = 0, *there = &value, *where = NULL;
    int left = (program.rank + program.ranks - 1) % program.ranks, right = (program.rank + 1) % program.ranks;
    value = 1000 * step + program.rank;
    MPI_Sendrecv(&there, sizeof there, MPI_BYTE, left, 1, &where, sizeof where, MPI_BYTE, right, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    struct iovec mine = {&got, sizeof got}, his = {where, sizeof got};
    check(process_vm_readv(peer, &mine, 1, &his, 1, 0) == sizeof got ? got == 1000 * step + right
                                                                     : errno == EPERM,
          "another rank's memory");
    check(kill(peer, SIGUSR2) == 0, "kill of another rank");
    check(fcntl(file, F_SETLK, &lock) == 0, "a lock");
    MPI_Barrier(MPI_COMM_WORLD);
    while (!from_peer)
        sched_yield();
    other.l_start = right;
    check(fcntl(file, F_GETLK, &other) == 0 && other.l_pid == peer, "who has a lock");
    pid_t expected = from_peer, left_id = 0;
    MPI_Sendrecv(&self, 1, MPI_INT, right, 2, &left_id, 1, MPI_INT, left, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    check(expected == left_id, "who has sent a signal");
    from_peer = 0;
}

static void begin(void)
{
    pthread_barrier_t is_there;
    pthread_t helper;
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigset_t set;
    self = getpid(), parent = getppid(), group = getpgrp(), session = getsid(0);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1); /* for the other thread only */
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_barrier_init(&is_there, NULL, 2);
    check(pthread_create(&helper, NULL, help, &is_there) == 0, "pthread_create");
    pthread_barrier_wait(&is_there);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    check(pipe(asynchronous) == 0 && fcntl(asynchronous[0], F_SETOWN, self) == 0, "F_SETOWN");
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    int left = (program.rank + program.ranks - 1) % program.ranks, right = (program.rank + 1) % program.ranks;
    MPI_Sendrecv(&self, 1, MPI_INT, left, 0, &peer, 1, MPI_INT, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    file = open("locks", O_RDWR | O_CREAT, 0600);
    check(file >= 0, "a file for locks");
}

static void hand_over(void)
{
    char command[PATH_BYTES];
    snprintf(command, sizeof command, "test -d /proc/%d", self);
    if (program.rank == 0 && system(command) == -1)
        errno = 0; /* a restart has taken it */
}

/* Two at once: the kernel makes a frame for each, and the upper handler runs first. */
static void raise_both(void)
{
    sigset_t both, before;
    sigemptyset(&both);
    sigaddset(&both, SIGUSR1);
    sigaddset(&both, SIGUSR2);
    sender = from_peer = signals = 0;
    pthread_sigmask(SIG_BLOCK, &both, &before);
    check(raise(SIGUSR1) == 0 && raise(SIGUSR2) == 0, "raising");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    check(sender == self && from_peer == self && signals == 2, "two signals at once");
}

static void be_raised(void)
{
    for (int i = 0; i < RAISED; i++) {
        sender = signals = 0;
        check_sent("raise", raise(SIGUSR1) == 0);
        raise_both();
    }
    from_peer = 0;
}

/* What the next rank sends while it is blocked; lines come meanwhile. */
static void be_sent_blocked(void)
{
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    from_peer = 0;
    pthread_sigmask(SIG_BLOCK, &set, &before);
    MPI_Barrier(MPI_COMM_WORLD);
    check(kill(peer, SIGUSR2) == 0, "kill of another rank");
    MPI_Barrier(MPI_COMM_WORLD);
    usleep(PENDING_US);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pid_t expected = from_peer, left_id = 0;
    int left = (program.rank + program.ranks - 1) % program.ranks, right = (program.rank + 1) % program.ranks;
    MPI_Sendrecv(&self, 1, MPI_INT, right, 3, &left_id, 1, MPI_INT, left, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    check(expected == left_id, "who has sent a signal that was blocked");
    from_peer = 0;
}

int main(int argc, char **argv)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* also for the threads that the library will make */
    MPI_Init(&argc, &argv);
    program_begin(&program, "process_ids", argc, argv);
    begin();
    for (step = 1; step <= program.steps; step++) {
        if (!strcmp(program.mode, "handed")) {
            hand_over();
        } else if (!strcmp(program.mode, "raised")) {
            be_raised();
            be_sent_blocked();
        } else {
            check_own();
            check_signals();
            check_settings();
            check_descriptors();
            check_paths();
            check_children();
            check_peer();
        }
        digest_add_number(&program.digest, (uint64_t)step);
        program_step(&program, step);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
