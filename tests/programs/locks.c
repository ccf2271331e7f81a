/*
 * locks - open files that are locked, by whom --mode says. Each rank has one of four files, and finds it
 * locked in each step by another open file, and another file not locked.
 *   own      by the program itself, flock(2) and fcntl(2), with descriptors that are closed afterwards, too
 *   others   by others who share the open file: a forked child, a program that was executed, who has received
 *            the descriptor, a vfork()ed child
 */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define KINDS 4

extern char **environ;

struct locks {
    struct program program;
    int fd, plain;             /* the one that is locked; the one that is not */
    int other_fd, other_plain; /* other open files of the same */
    long step;
};

static void demand(const struct locks *l, bool fact, const char *what)
{
    if (!fact)
        fail(&l->program, "step %ld: %s (%s)", l->step, what, strerror(errno));
}

static int open_one(const struct locks *l, const char *kind)
{
    char name[64];
    snprintf(name, sizeof name, "data-%s-%s-%d", l->program.mode, kind, l->program.rank);
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    demand(l, fd >= 0, name);
    return fd;
}

static void open_all(struct locks *l)
{
    l->other_fd = open_one(l, "locked");
    l->other_plain = open_one(l, "plain");
    l->fd = open_one(l, "locked");
    l->plain = open_one(l, "plain");
}

static int lock_range(int fd, int command)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 5, .l_len = 10};
    return fcntl(fd, command, &range);
}

/* ---- by the program itself ---- */

/* The kernel looks at the lower half of a descriptor's number. */
static int lock_file(struct locks *l)
{
    open_all(l);
    return (int)syscall(SYS_flock, 1ul << 32 | (unsigned)l->fd, LOCK_EX);
}

static int lock_by_copy(struct locks *l)
{
    open_all(l);
    int copy = dup(l->fd), result = flock(copy, LOCK_EX | LOCK_NB);
    close(copy);
    return result;
}

static int lock_own_range(struct locks *l)
{
    open_all(l);
    return lock_range(l->fd, F_SETLKW);
}

static int lock_range_by_copy(struct locks *l)
{
    open_all(l);
    int copy = fcntl(l->fd, F_DUPFD_CLOEXEC, 0), result = lock_range(copy, F_OFD_SETLKW);
    close(copy);
    return result;
}

/* ---- by others ---- */

static int status_of(pid_t child)
{
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

static int lock_by_child(struct locks *l)
{
    open_all(l);
    pid_t child = fork();
    if (child == 0)
        _exit(flock(l->fd, LOCK_EX) != 0);
    return status_of(child);
}

static int lock_by_vforked_child(struct locks *l)
{
    open_all(l);
    pid_t child = vfork();
    if (child == 0)
        _exit(flock(l->fd, LOCK_EX) != 0);
    return status_of(child);
}

static int lock_by_program(struct locks *l)
{
    char number[16], *arguments[] = {"flock", "-x", number, NULL};
    pid_t child;
    open_all(l);
    snprintf(number, sizeof number, "%d", l->fd);
    return posix_spawnp(&child, "flock", NULL, NULL, arguments, environ) ? -1 : status_of(child);
}

union rights {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

static struct msghdr message_of(struct iovec *part, union rights *rights)
{
    return (struct msghdr){
        .msg_iov = part, .msg_iovlen = 1, .msg_control = rights, .msg_controllen = sizeof *rights};
}

static int lock_received(int from)
{
    char byte;
    union rights rights;
    struct iovec part = {&byte, 1};
    struct msghdr message = message_of(&part, &rights);
    if (recvmsg(from, &message, 0) != 1)
        return 1;
    return flock(*(int *)(void *)CMSG_DATA(CMSG_FIRSTHDR(&message)), LOCK_EX) != 0;
}

/* The child is there before the file is open. */
static int lock_by_receiver(struct locks *l)
{
    int pair[2];
    char byte = 0;
    union rights rights = {.align = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec part = {&byte, 1};
    struct msghdr message = message_of(&part, &rights);
    demand(l, socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    pid_t child = fork();
    if (child == 0)
        _exit(lock_received(pair[1]));
    open_all(l);
    memcpy(CMSG_DATA(&rights.align), &l->fd, sizeof l->fd);
    demand(l, sendmsg(pair[0], &message, 0) == 1, "sendmsg");
    close(pair[0]);
    close(pair[1]);
    return status_of(child);
}

/* ---- */

/* By another open file of the same process: that is refused, too. */
static bool is_locked(int fd)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (flock(fd, LOCK_SH | LOCK_NB) < 0)
        return errno == EWOULDBLOCK;
    flock(fd, LOCK_UN);
    return fcntl(fd, F_OFD_GETLK, &range) == 0 && range.l_type == F_WRLCK && range.l_start == 5 &&
           range.l_len == 10;
}

int main(int argc, char **argv)
{
    static int (*const own[KINDS])(struct locks * l) = {lock_file, lock_by_copy, lock_own_range,
                                                        lock_range_by_copy};
    static int (*const others[KINDS])(struct locks * l) = {lock_by_child, lock_by_program, lock_by_receiver,
                                                           lock_by_vforked_child};
    static struct locks l = {.program = {.steps = 100}};
    MPI_Init(&argc, &argv);
    program_begin(&l.program, "locks", argc, argv);
    int kind = l.program.rank % KINDS;
    demand(&l, (strcmp(l.program.mode, "own") ? others : own)[kind](&l) == 0, "a lock");
    for (l.step = 1; l.step <= l.program.steps; l.step++) {
        demand(&l, is_locked(l.other_fd), "a lock that is held");
        demand(&l, !is_locked(l.other_plain), "no lock");
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&l.program, l.step);
    }
    program_end(&l.program);
    MPI_Finalize();
    return 0;
}
