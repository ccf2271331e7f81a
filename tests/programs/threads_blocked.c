/*
 * threads_blocked - threads that wait in system calls without a timeout, each in another one, until the main
 * thread releases them once in every step. Neither a line nor a restart may end a wait, but for those on what
 * a restart does not bring back: they end with EBADF then. Locks are gone after a restart: whoever waits has
 * them.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/programs/incarnation.h"
#include "tests/programs/program.h"

#define LOOK_S 1

enum lasting {
    LASTS,
    IS_LOST
}; /* what releases it, through a restart that comes before the wait has ended */

struct waiter {
    const char *name;
    int (*make)(struct waiter *w);    /* 0, or -1 */
    int (*wait)(struct waiter *w);    /* blocks until it is released; 0, or -1 with errno */
    int (*release)(struct waiter *w); /* 0, or -1 */
    enum lasting lasting;
    int fds[2];
    pthread_t thread;
    sem_t go, done;
};

static struct program program = {.steps = 100};

static int one_byte(ssize_t bytes)
{
    return bytes == 1 ? 0 : -1;
}

static int put(struct waiter *w)
{
    return one_byte(write(w->fds[1], "x", 1));
}

static int get(struct waiter *w)
{
    char byte;
    return one_byte(read(w->fds[0], &byte, 1));
}

static int make_pipe(struct waiter *w)
{
    return pipe(w->fds);
}

/* ---- pipes ---- */

static int wait_poll(struct waiter *w)
{
    struct pollfd ready = {w->fds[0], POLLIN, 0};
    return poll(&ready, 1, -1) == 1 ? get(w) : -1;
}

static int wait_select(struct waiter *w)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(w->fds[0], &set);
    return select(w->fds[0] + 1, &set, NULL, NULL, NULL) == 1 ? get(w) : -1;
}

/* The pipe is full all the time. */
static int make_full(struct waiter *w)
{
    static const char block[65536];
    if (pipe(w->fds) || fcntl(w->fds[1], F_SETFL, O_NONBLOCK))
        return -1;
    while (write(w->fds[1], block, sizeof block) > 0)
        ;
    return fcntl(w->fds[1], F_SETFL, 0);
}

static int wait_write(struct waiter *w)
{
    static const char block[4096];
    return write(w->fds[1], block, sizeof block) == sizeof block ? 0 : -1;
}

static int make_room(struct waiter *w)
{
    char block[4096];
    return read(w->fds[0], block, sizeof block) == sizeof block ? 0 : -1;
}

/* ---- locks: one that belongs to another open file of the same process ---- */

static int make_locked(struct waiter *w)
{
    char name[64];
    snprintf(name, sizeof name, "data-%s-%d", w->name, program.rank);
    w->fds[0] = open(name, O_RDWR | O_CREAT, 0600);
    w->fds[1] = open(name, O_RDWR);
    return w->fds[0] < 0 || w->fds[1] < 0 ? -1 : 0;
}

static int make_flock(struct waiter *w)
{
    return make_locked(w) || flock(w->fds[1], LOCK_EX) ? -1 : 0;
}

/* Then the other one has it again. */
static int wait_flock(struct waiter *w)
{
    return flock(w->fds[0], LOCK_EX) || flock(w->fds[0], LOCK_UN) || flock(w->fds[1], LOCK_EX) ? -1 : 0;
}

static int end_flock(struct waiter *w)
{
    return flock(w->fds[1], LOCK_UN);
}

static int lock_as(int fd, int command, short type)
{
    struct flock whole = {.l_type = type, .l_whence = SEEK_SET};
    return fcntl(fd, command, &whole);
}

static int make_fcntl(struct waiter *w)
{
    return make_locked(w) || lock_as(w->fds[1], F_OFD_SETLK, F_WRLCK) ? -1 : 0;
}

static int wait_fcntl(struct waiter *w)
{
    return lock_as(w->fds[0], F_OFD_SETLKW, F_WRLCK) || lock_as(w->fds[0], F_OFD_SETLK, F_UNLCK) ||
                   lock_as(w->fds[1], F_OFD_SETLKW, F_WRLCK)
               ? -1
               : 0;
}

static int end_fcntl(struct waiter *w)
{
    return lock_as(w->fds[1], F_OFD_SETLK, F_UNLCK);
}

/* ---- events, signals, messages ---- */

static int make_event(struct waiter *w)
{
    w->fds[0] = w->fds[1] = eventfd(0, 0);
    return w->fds[0] < 0 ? -1 : 0;
}

static int put_event(struct waiter *w)
{
    return eventfd_write(w->fds[1], 1);
}

static int wait_event(struct waiter *w)
{
    eventfd_t value;
    return eventfd_read(w->fds[0], &value) || value != 1 ? -1 : 0;
}

static int make_epoll(struct waiter *w)
{
    struct epoll_event event = {.events = EPOLLIN};
    w->fds[1] = eventfd(0, 0);
    w->fds[0] = epoll_create1(0);
    return epoll_ctl(w->fds[0], EPOLL_CTL_ADD, w->fds[1], &event);
}

static int wait_epoll(struct waiter *w)
{
    struct epoll_event event;
    eventfd_t value;
    return epoll_wait(w->fds[0], &event, 1, -1) == 1 ? eventfd_read(w->fds[1], &value) : -1;
}

static int make_nothing(struct waiter *w)
{
    (void)w;
    return 0;
}

static int wait_signal(struct waiter *w)
{
    sigset_t set;
    siginfo_t info;
    (void)w;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    return sigwaitinfo(&set, &info) == SIGUSR1 ? 0 : -1;
}

static int send_signal(struct waiter *w)
{
    return pthread_kill(w->thread, SIGUSR1);
}

static int make_queue(struct waiter *w)
{
    w->fds[0] = msgget(IPC_PRIVATE, 0600);
    return w->fds[0] < 0 ? -1 : 0;
}

static int wait_message(struct waiter *w)
{
    struct msgbuf message;
    return msgrcv(w->fds[0], &message, 0, 1, 0) < 0 ? -1 : 0;
}

static int send_message(struct waiter *w)
{
    struct msgbuf message = {.mtype = 1};
    return msgsnd(w->fds[0], &message, 0, 0);
}

/* ---- sockets: a restart brings back who listens, but not who has connected and waits ---- */

static int make_pair(struct waiter *w)
{
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w->fds);
}

static int wait_recv(struct waiter *w)
{
    char byte;
    return one_byte(recv(w->fds[0], &byte, 1, 0));
}

static int make_listener(struct waiter *w)
{
    w->fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return listen(w->fds[0], 5); /* at a port that the kernel chooses */
}

static int wait_accept(struct waiter *w)
{
    int fd = accept(w->fds[0], NULL, NULL);
    return fd < 0 ? -1 : close(fd);
}

static int connect_to(struct waiter *w)
{
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (getsockname(w->fds[0], (struct sockaddr *)&address, &bytes))
        return -1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect(fd, (struct sockaddr *)&address, bytes) ? -1 : close(fd);
}

static struct waiter waiters[] = {
    {.name = "read", .make = make_pipe, .wait = get, .release = put},
    {.name = "poll", .make = make_pipe, .wait = wait_poll, .release = put},
    {.name = "select", .make = make_pipe, .wait = wait_select, .release = put},
    {.name = "write", .make = make_full, .wait = wait_write, .release = make_room},
    {.name = "flock", .make = make_flock, .wait = wait_flock, .release = end_flock},
    {.name = "fcntl", .make = make_fcntl, .wait = wait_fcntl, .release = end_fcntl},
    {.name = "eventfd", .make = make_event, .wait = wait_event, .release = put_event},
    {.name = "epoll_wait", .make = make_epoll, .wait = wait_epoll, .release = put_event},
    {.name = "sigwaitinfo", .make = make_nothing, .wait = wait_signal, .release = send_signal},
    {.name = "msgrcv", .make = make_queue, .wait = wait_message, .release = send_message},
    {.name = "recv", .make = make_pair, .wait = wait_recv, .release = put},
    {.name = "accept", .make = make_listener, .wait = wait_accept, .release = connect_to, .lasting = IS_LOST},
};

#define WAITERS (sizeof waiters / sizeof waiters[0])

static void *wait_often(void *argument)
{
    struct waiter *w = argument;
    for (long step = 1; step <= program.steps; step++) {
        while (sem_wait(&w->go))
            ;
        int result = w->wait(w), error = errno;
        if (result)
            fail(&program, "%s ended with %s", w->name, strerror(error));
        sem_post(&w->done);
    }
    return NULL;
}

static void begin(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (size_t i = 0; i < WAITERS; i++) {
        struct waiter *w = &waiters[i];
        sem_init(&w->go, 0, 1);
        sem_init(&w->done, 0, 0);
        if (w->make(w) || pthread_create(&w->thread, NULL, wait_often, w))
            fail(&program, "%s: %s", w->name, strerror(errno));
    }
}

static void release(struct waiter *w)
{
    if (w->release(w))
        fail(&program, "cannot release %s: %s", w->name, strerror(errno));
}

/* It was released by this process: once more if a restart has lost that. */
static void await_done(struct waiter *w, long process)
{
    struct timespec until;
    for (;;) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += LOOK_S;
        if ((w->lasting == LASTS ? sem_wait(&w->done) : sem_timedwait(&w->done, &until)) == 0)
            return;
        if (w->lasting == IS_LOST && incarnation() != process) {
            process = incarnation();
            release(w);
        }
    }
}

/* All are released, have told so, and may wait again. */
static void release_all(void)
{
    const long process = incarnation();
    for (size_t i = 0; i < WAITERS; i++)
        release(&waiters[i]);
    for (size_t i = 0; i < WAITERS; i++) {
        await_done(&waiters[i], process);
        sem_post(&waiters[i].go);
    }
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    program_begin(&program, "threads_blocked", argc, argv);
    begin();
    for (long step = 1; step <= program.steps; step++) {
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&program, step); /* here all of them wait */
        release_all();
    }
    for (size_t i = 0; i < WAITERS; i++) {
        pthread_join(waiters[i].thread, NULL);
        if (waiters[i].make == make_queue)
            msgctl(waiters[i].fds[0], IPC_RMID, NULL);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
