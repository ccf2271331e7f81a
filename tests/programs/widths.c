/*
 * widths - raw system calls whose arguments of 32 bits have something else in the upper half of their
 * registers. Each must do what it does without, and leave the registers as they were. Pointers that lead
 * nowhere are errors. Rank 0 prints every result.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mpi.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/program.h"

#ifndef ARCH_GET_FS
#define ARCH_GET_FS 0x1003
#endif

enum result { NUMBER, DESCRIPTOR, SUCCESS }; /* to be printed; to be closed; only whether it is an error */

struct widths {
    struct program program;
    bool is_talking, has_lost_sockets;
    int file, null, zero, pipe[2], epoll, pair[2], listener, event, timer, folder;
    int semaphores, segment, queue;
    struct sockaddr_un address;
    char text[64];
};

/* The call, and whether it has kept the registers of its arguments. */
static long call(long nr, const long args[6], bool *is_kept)
{
    long result, a = args[0], b = args[1], c = args[2];
    register long d __asm__("r10") = args[3];
    register long e __asm__("r8") = args[4];
    register long f __asm__("r9") = args[5];
    __asm__ volatile("syscall"
                     : "=a"(result), "+D"(a), "+S"(b), "+d"(c), "+r"(d), "+r"(e), "+r"(f)
                     : "a"(nr)
                     : "rcx", "r11", "memory");
    *is_kept = a == args[0] && b == args[1] && c == args[2] && d == args[3] && e == args[4] && f == args[5];
    return result;
}

static long settle(long result, enum result kind)
{
    if (kind == DESCRIPTOR && result >= 0)
        close((int)result);
    return kind == NUMBER || result < 0 ? result : 0;
}

/* Sockets do not come back from a restart, whose calls then fail. */
static bool has_lost(struct widths *w)
{
    int accepts;
    socklen_t bytes = sizeof accepts;
    if (w->listener >= 0 && getsockopt(w->listener, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &bytes))
        w->has_lost_sockets = true;
    return w->has_lost_sockets;
}

/*
 * Makes the call as it is, then with each pattern in the upper halves of those arguments that `wide` does not
 * mark by '.', and compares. `again`, if not NULL, is called before each to make it possible.
 */
static void same(struct widths *w, const char *name, long nr, const char *wide, enum result kind,
                 void (*again)(struct widths *w), long a, long b, long c, long d, long e, long f)
{
    static const unsigned long patterns[] = {0, 0xffffffff, 0xdeadbeef, 1};
    const long plain[6] = {a, b, c, d, e, f};
    bool is_kept;
    if (again)
        again(w);
    long expected = settle(call(nr, plain, &is_kept), kind);
    if (w->is_talking)
        printf("%s: %ld\n", name, expected);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        long args[6];
        for (size_t at = 0; at < 6; at++)
            args[at] = at >= strlen(wide) || wide[at] == '.'
                           ? plain[at]
                           : (long)(patterns[i] << 32 | ((unsigned long)plain[at] & 0xffffffff));
        if (again)
            again(w);
        long result = settle(call(nr, args, &is_kept), kind);
        if ((result != expected || !is_kept) && !has_lost(w))
            fail(&w->program, "%s with %lx: %ld, not %ld; registers %s", name, patterns[i], result, expected,
                 is_kept ? "kept" : "changed");
    }
}

#define AGAIN(again, name, wide, kind, ...) CALL(again, name, wide, kind, __VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define SAME(name, wide, kind, ...) CALL(NULL, name, wide, kind, __VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define CALL(again, name, wide, kind, a, b, c, d, e, f, ...)                                                 \
    same(w, #name, SYS_##name, wide, kind, again, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e),     \
         (long)(f))

/* ---- what has to be there before a call that removes or makes it ---- */

static void no_names(struct widths *w)
{
    (void)w;
    unlink("width-other");
    rmdir("width-other");
}

static void both_names(struct widths *w)
{
    no_names(w);
    int fd = open("width-name", O_WRONLY | O_CREAT, 0600);
    close(fd);
}

static void other_name(struct widths *w)
{
    both_names(w);
    if (link("width-name", "width-other"))
        fail(&w->program, "link: %s", strerror(errno));
}

static void duplicate(struct widths *w)
{
    dup2(w->null, 700);
}

static void filled_pipe(struct widths *w)
{
    char bytes[64];
    fcntl(w->pipe[0], F_SETFL, O_NONBLOCK);
    while (read(w->pipe[0], bytes, sizeof bytes) > 0)
        ;
    fcntl(w->pipe[0], F_SETFL, 0);
    if (write(w->pipe[1], "in the pipe", 11) != 11)
        fail(&w->program, "filling a pipe: %s", strerror(errno));
}

static void filled_pair(struct widths *w)
{
    char bytes[64];
    while (recv(w->pair[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    send(w->pair[1], "in a socket", 11, 0);
}

static void caller(struct widths *w)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&w->address, sizeof w->address) && !has_lost(w))
        fail(&w->program, "connect: %s", strerror(errno));
    close(fd);
}

/* ---- the calls ---- */

static void call_on_files(struct widths *w)
{
    char text[64] = "some text", more[64] = "more of it";
    struct iovec parts[2] = {{text, 9}, {more, 10}};
    loff_t from = 0, to = 100;
    struct {
        unsigned long flags, mode, resolve;
    } how = {O_RDONLY, 0, 0};
    SAME(open, ".iu", DESCRIPTOR, "width-file", O_RDWR | O_CREAT, 0600);
    SAME(openat, "i.iu", DESCRIPTOR, AT_FDCWD, "width-file", O_RDWR | O_CREAT, 0600);
    SAME(openat, "i.iu", DESCRIPTOR, w->folder, "width-file", O_WRONLY | O_TRUNC, 0);
    SAME(openat2, "i", DESCRIPTOR, AT_FDCWD, "width-file", &how, sizeof how);
    SAME(creat, ".u", DESCRIPTOR, "width-created", 0600);
    SAME(write, "u", NUMBER, w->file, text, 9);
    SAME(writev, "u.u", NUMBER, w->file, parts, 2);
    SAME(writev, "u.u", NUMBER, w->file, parts, -1);
    SAME(pwrite64, "u", NUMBER, w->file, text, 9, 40);
    SAME(pwritev, "u.u", NUMBER, w->file, parts, 2, 50);
    SAME(pwritev2, "u.u..i", NUMBER, w->file, parts, 2, 50, 0, 0);
    SAME(pwritev2, "u.u..i", NUMBER, w->file, parts, 2, 0, 0, 0x10 /* RWF_APPEND */);
    SAME(pread64, "u", NUMBER, w->file, more, 9, 40);
    SAME(ftruncate, "u", NUMBER, w->file, 200);
    SAME(fallocate, "ii", NUMBER, w->file, 0, 100, 200);
    SAME(fallocate, "ii", NUMBER, w->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 20);
    SAME(copy_file_range, "i.i..u", NUMBER, w->file, &from, w->file, &to, 0, 0);
    SAME(sendfile, "ii", NUMBER, w->null, w->file, &from, 0);
    AGAIN(filled_pipe, splice, "i.i..u", NUMBER, w->pipe[0], NULL, w->file, &to, 5, 0);
    SAME(read, "u", NUMBER, w->zero, more, 10);
    SAME(readv, "u.u", NUMBER, w->zero, parts, 2);
    SAME(write, "u", NUMBER, w->null, text, 10);
    SAME(fcntl, "uu", NUMBER, w->file, F_GETFL);
    SAME(fcntl, "uu", DESCRIPTOR, w->file, F_DUPFD, 100);
    AGAIN(filled_pipe, ioctl, "uu", NUMBER, w->pipe[0], FIONREAD, more);
}

static void call_on_names(struct widths *w)
{
    char text[64];
    AGAIN(both_names, linkat, "i.i.i", NUMBER, AT_FDCWD, "width-name", AT_FDCWD, "width-other", 0);
    AGAIN(no_names, symlinkat, ".i", NUMBER, "width-name", AT_FDCWD, "width-other");
    AGAIN(no_names, mkdirat, "i.u", NUMBER, AT_FDCWD, "width-other", 0700);
    AGAIN(no_names, mkdir, ".u", NUMBER, "width-other", 0700);
    AGAIN(no_names, mknodat, "i.uu", NUMBER, AT_FDCWD, "width-other", S_IFIFO | 0600, 0);
    AGAIN(no_names, mknod, ".uu", NUMBER, "width-other", S_IFREG | 0600, 0);
    AGAIN(other_name, unlinkat, "i.i", NUMBER, AT_FDCWD, "width-other", 0);
    AGAIN(both_names, renameat, "i.i", NUMBER, AT_FDCWD, "width-name", w->folder, "width-other");
    AGAIN(both_names, renameat2, "i.i.u", NUMBER, AT_FDCWD, "width-name", AT_FDCWD, "width-other",
          RENAME_NOREPLACE);
    AGAIN(other_name, renameat2, "i.i.u", NUMBER, AT_FDCWD, "width-name", AT_FDCWD, "width-other",
          RENAME_EXCHANGE);
    SAME(readlink, "..i", NUMBER, "width-link", text, sizeof text);
    SAME(readlink, "..i", NUMBER, "/proc/self/exe", text, -1);
    SAME(readlinkat, "i..i", NUMBER, AT_FDCWD, "width-link", text, sizeof text);
}

static void call_on_descriptors(struct widths *w)
{
    int pair[2];
    unsigned long mask = 1ul << (SIGUSR1 - 1);
    struct itimerspec setting = {{0, 0}, {1000, 0}};
    AGAIN(duplicate, close, "u", NUMBER, 700);
    AGAIN(duplicate, close_range, "uuu", NUMBER, 700, 701, 0);
    SAME(dup, "u", DESCRIPTOR, w->null);
    SAME(dup2, "uu", DESCRIPTOR, w->null, 700);
    SAME(dup3, "uui", DESCRIPTOR, w->null, 700, O_CLOEXEC);
    SAME(pipe2, ".i", NUMBER, pair, 1 << 30);
    SAME(eventfd, "u", DESCRIPTOR, 3);
    SAME(eventfd2, "ui", DESCRIPTOR, 3, 0);
    SAME(epoll_create, "i", DESCRIPTOR, 1);
    SAME(epoll_create1, "i", DESCRIPTOR, 0);
    SAME(timerfd_create, "ii", DESCRIPTOR, CLOCK_MONOTONIC, 0);
    SAME(timerfd_settime, "ii", NUMBER, w->timer, TFD_TIMER_ABSTIME, &setting, NULL);
    SAME(signalfd, "i", DESCRIPTOR, -1, &mask, 8);
    SAME(signalfd4, "i..i", DESCRIPTOR, -1, &mask, 8, 0);
    SAME(inotify_init1, "i", DESCRIPTOR, 0);
    SAME(memfd_create, ".u", DESCRIPTOR, "width", 0);
    SAME(pidfd_open, "iu", DESCRIPTOR, getpid(), 0);
}

static void open_sockets(struct widths *w)
{
    unlink(w->address.sun_path);
    w->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, w->pair) ||
        ((bind(w->listener, (struct sockaddr *)&w->address, sizeof w->address) || listen(w->listener, 20)) &&
         !has_lost(w)))
        fail(&w->program, "sockets: %s", strerror(errno));
}

static void close_sockets(struct widths *w)
{
    close(w->listener);
    w->listener = -1;
    close(w->pair[0]);
    close(w->pair[1]);
}

static void call_on_open_sockets(struct widths *w)
{
    char text[64];
    int fd, size = 20000, pair[2];
    struct timeval timeout = {100, 0};
    struct iovec part = {text, 5};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct mmsghdr messages[2] = {{message, 0}, {message, 0}};
    SAME(socket, "iii", DESCRIPTOR, AF_UNIX, SOCK_STREAM, 0);
    SAME(socketpair, "iii", NUMBER, AF_UNIX, 77, 0, pair);
    SAME(setsockopt, "iii.i", NUMBER, w->pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    SAME(setsockopt, "iii.i", NUMBER, w->pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    AGAIN(filled_pair, read, "u", NUMBER, w->pair[0], text, 5);
    AGAIN(filled_pair, recvfrom, "i..u", NUMBER, w->pair[0], text, 5, MSG_PEEK, NULL, NULL);
    AGAIN(filled_pair, recvmsg, "i.u", NUMBER, w->pair[0], &message, MSG_PEEK);
    AGAIN(filled_pair, recvmmsg, "i.uu", NUMBER, w->pair[0], messages, 1, MSG_DONTWAIT, NULL);
    AGAIN(filled_pair, sendto, "i..u.i", NUMBER, w->pair[1], text, 5, 0, NULL, 0);
    AGAIN(filled_pair, sendmsg, "i.u", NUMBER, w->pair[1], &message, 0);
    AGAIN(filled_pair, sendmmsg, "i.uu", NUMBER, w->pair[1], messages, 2, 0);
    AGAIN(caller, accept, "i", DESCRIPTOR, w->listener, NULL, NULL);
    AGAIN(caller, accept4, "i..i", DESCRIPTOR, w->listener, NULL, NULL, SOCK_CLOEXEC);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    SAME(connect, "i.i", SUCCESS, fd, &w->address, 1);
    SAME(bind, "i.i", SUCCESS, fd, &w->address, 1);
    close(fd);
}

static void call_on_sockets(struct widths *w)
{
    do {
        w->has_lost_sockets = false;
        open_sockets(w);
        call_on_open_sockets(w);
        close_sockets(w);
    } while (w->has_lost_sockets);
}

static void call_waits(struct widths *w)
{
    struct pollfd ready = {.fd = w->pipe[1], .events = POLLOUT}, never = {.fd = w->event, .events = POLLIN};
    struct epoll_event events[2];
    struct timespec soon = {0, 1000000}, past = {0, 1};
    struct timeval soon_us = {0, 1000};
    struct sembuf none = {0, 0, 0};
    unsigned word = 7;
    AGAIN(filled_pipe, poll, ".ui", NUMBER, &ready, 1, 0);
    SAME(poll, ".ui", NUMBER, &never, 1, 1);
    AGAIN(filled_pipe, poll, ".ui", NUMBER, &ready, 1, -1);
    SAME(ppoll, ".u", NUMBER, &never, 1, &soon, NULL, 8);
    SAME(select, "i", NUMBER, 0, NULL, NULL, NULL, &soon_us);
    SAME(pselect6, "i", NUMBER, 0, NULL, NULL, NULL, &soon, NULL);
    SAME(epoll_wait, "i.ii", NUMBER, w->epoll, events, 2, 0);
    SAME(epoll_wait, "i.ii", NUMBER, w->epoll, events, 2, 1);
    SAME(epoll_pwait, "i.ii", NUMBER, w->epoll, events, 2, 1, NULL, 8);
    SAME(epoll_pwait2, "i.i", NUMBER, w->epoll, events, 2, &soon, NULL, 8);
    SAME(clock_nanosleep, "ii", NUMBER, CLOCK_MONOTONIC, 0, &soon, NULL);
    SAME(clock_nanosleep, "ii", NUMBER, CLOCK_MONOTONIC, TIMER_ABSTIME, &past, NULL);
    SAME(futex, ".iu..u", NUMBER, &word, FUTEX_WAIT, 8, &soon);
    SAME(futex, ".iu..u", NUMBER, &word, FUTEX_WAIT, 7, &soon);
    SAME(futex, ".iu..u", NUMBER, &word, FUTEX_WAIT_BITSET_PRIVATE, 7, &past, NULL, -1);
    SAME(futex, ".iu..u", NUMBER, &word, FUTEX_WAKE, 1);
    SAME(semop, "i.u", NUMBER, w->semaphores, &none, 1);
    SAME(semtimedop, "i.u", NUMBER, w->semaphores, &none, 1, &soon);
}

static void call_rest(struct widths *w)
{
    struct rusage usage;
    struct timespec now;
    unsigned long old[4], mask = 0, set[16] = {0};
    struct iovec mine = {old, 8}, other = {&mask, 8};
    int timer;
    SAME(mmap, "....u", NUMBER, 0, 0, PROT_READ, MAP_PRIVATE, w->file, 0);
    SAME(mmap, "....u", SUCCESS, 0, 4096, PROT_READ, MAP_PRIVATE, w->zero, 0);
    SAME(madvise, "..i", NUMBER, 0, 0, MADV_NORMAL);
    SAME(shmat, "i.i", SUCCESS, w->segment, NULL, SHM_RDONLY);
    SAME(rt_sigaction, "i", NUMBER, SIGUSR1, NULL, old, 8);
    SAME(rt_sigprocmask, "i", NUMBER, SIG_BLOCK, &mask, NULL, 8);
    SAME(getrusage, "i", NUMBER, RUSAGE_SELF, &usage);
    SAME(clock_gettime, "i", NUMBER, CLOCK_MONOTONIC, &now);
    SAME(clock_gettime, "i", NUMBER, CLOCK_THREAD_CPUTIME_ID, &now);
    SAME(getpriority, "ii", SUCCESS, PRIO_PROCESS, 0);
    SAME(sched_getscheduler, "i", NUMBER, 0);
    SAME(sched_getaffinity, "iu", SUCCESS, 0, sizeof set, set);
    SAME(tgkill, "iii", NUMBER, getpid(), getpid(), 0);
    SAME(tkill, "ii", NUMBER, getpid(), 0);
    SAME(arch_prctl, "i", NUMBER, ARCH_GET_FS, old);
    SAME(process_vm_writev, "i", NUMBER, getpid(), &other, 1, &mine, 1, 0);
    SAME(timer_create, "i", NUMBER, CLOCK_MONOTONIC, NULL, NULL);
    struct sigevent silent = {.sigev_notify = SIGEV_NONE};
    if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &silent, &timer))
        fail(&w->program, "timer_create");
    struct itimerspec setting = {{0, 0}, {1000, 0}};
    SAME(timer_settime, "ii", NUMBER, timer, 0, &setting, NULL);
    SAME(timer_settime, "ii", NUMBER, timer, TIMER_ABSTIME, &setting, NULL);
    SAME(timer_gettime, "i", NUMBER, timer, &setting);
    SAME(timer_getoverrun, "i", NUMBER, timer);
    call(SYS_timer_delete, (long[6]){(long)(0xdeadbeefUL << 32 | (unsigned)timer)}, &(bool){false});
    SAME(timer_gettime, "i", NUMBER, timer, &setting);
}

/* Pointers that lead nowhere: an error, no crash. */
static void call_nowhere(struct widths *w)
{
    static const long addresses[] = {0, 8, -4096, 0x7fffl << 48};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        long at = addresses[i], none = 0;
        SAME(open, ".iu", NUMBER, at, O_RDONLY, 0);
        SAME(openat, "i.iu", NUMBER, AT_FDCWD, at, O_RDWR | O_CREAT | O_TRUNC, 0600);
        SAME(openat2, "i", NUMBER, AT_FDCWD, "width-file", at, 24);
        SAME(creat, ".u", NUMBER, at, 0600);
        SAME(readlink, "..i", NUMBER, at, at, 10);
        SAME(unlinkat, "i.i", NUMBER, AT_FDCWD, at, 0);
        SAME(renameat, "i.i", NUMBER, AT_FDCWD, at, AT_FDCWD, at);
        SAME(symlinkat, ".i", NUMBER, "width-name", AT_FDCWD, at);
        SAME(writev, "u.u", NUMBER, w->file, at, 2);
        SAME(pwritev2, "u.u..i", NUMBER, w->file, at, 2, 0, 0, 0);
        SAME(write, "u", NUMBER, w->file, at, 10);
        SAME(pipe2, ".i", NUMBER, at, 0);
        SAME(socketpair, "iii", NUMBER, AF_UNIX, SOCK_STREAM, 0, at);
        SAME(timer_create, "i", NUMBER, CLOCK_MONOTONIC, NULL, at);
        SAME(clock_gettime, "i", NUMBER, CLOCK_MONOTONIC, at);
        SAME(clock_nanosleep, "ii", NUMBER, CLOCK_MONOTONIC, 0, at, NULL);
        SAME(nanosleep, "", NUMBER, at, NULL);
        SAME(rt_sigtimedwait, "", NUMBER, at, NULL, NULL, 8);
        if (at) {
            SAME(copy_file_range, "i.i..u", NUMBER, w->file, NULL, w->file, at, 5, 0);
            SAME(rt_sigaction, "i", NUMBER, SIGUSR1, at, NULL, 8);
            SAME(rt_sigaction, "i", NUMBER, SIGUSR1, NULL, at, 8);
            SAME(rt_sigprocmask, "i", NUMBER, SIG_BLOCK, at, NULL, 8);
            SAME(ppoll, ".u", NUMBER, NULL, 0, at, NULL, 8);
            SAME(futex, ".iu..u", NUMBER, &none, FUTEX_WAIT, 0, at);
        }
    }
}

static void begin(struct widths *w)
{
    char name[64];
    snprintf(name, sizeof name, "width-%d", w->program.rank);
    w->address = (struct sockaddr_un){.sun_family = AF_UNIX, .sun_path = "socket"};
    if ((mkdir(name, 0700) && errno != EEXIST) || chdir(name))
        fail(&w->program, "%s: %s", name, strerror(errno));
    w->folder = open(".", O_RDONLY | O_DIRECTORY);
    w->file = open("width-file", O_RDWR | O_CREAT, 0600);
    w->null = open("/dev/null", O_RDWR);
    w->zero = open("/dev/zero", O_RDONLY);
    w->epoll = epoll_create1(0);
    w->event = (int)syscall(SYS_eventfd2, 0, 0);
    w->timer = timerfd_create(CLOCK_MONOTONIC, 0);
    w->semaphores = semget(IPC_PRIVATE, 1, 0600);
    w->segment = shmget(IPC_PRIVATE, 4096, 0600);
    if (w->folder < 0 || w->file < 0 || w->segment < 0 || w->semaphores < 0 || pipe(w->pipe) ||
        symlink("width-name", "width-link"))
        fail(&w->program, "the beginning: %s", strerror(errno));
}

int main(int argc, char **argv)
{
    struct widths w = {.program = {.steps = 100}, .listener = -1};
    MPI_Init(&argc, &argv);
    program_begin(&w.program, "widths", argc, argv);
    begin(&w);
    for (long step = 1; step <= w.program.steps; step++) {
        w.is_talking = w.program.rank == 0 && (step == 1 || step == w.program.steps);
        call_on_files(&w);
        call_on_names(&w);
        call_on_descriptors(&w);
        call_on_sockets(&w);
        call_waits(&w);
        call_rest(&w);
        call_nowhere(&w);
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&w.program, step);
    }
    semctl(w.semaphores, 0, IPC_RMID);
    shmctl(w.segment, IPC_RMID, NULL);
    program_end(&w.program);
    MPI_Finalize();
    return 0;
}
