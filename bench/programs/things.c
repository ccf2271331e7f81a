/*
 * things - has many things open for ever: what a line costs by what a process has beside memory.
 *
 * usage: mpirun -n RANKS things KIND COUNT
 *
 *   files      COUNT regular files, each another one        one        one file, opened COUNT times
 *   copies     COUNT descriptors of one open file           deleted    COUNT files without a name
 *   pipes      COUNT pipes, both ends, empty                full       ... with 100 bytes in each
 *   pairs      COUNT pairs of sockets, empty                listening  COUNT sockets that listen
 *   events     COUNT eventfds                               alarms     COUNT timerfds, set
 *   watched    an epoll descriptor that watches COUNT eventfds
 *   timers     COUNT timers of timer_create                 threads    COUNT threads that sleep
 *   mappings   COUNT mappings of a page
 *   issends    COUNT synchronous sends of rank 0 to rank 1, which nobody receives
 *   communicators   COUNT communicators
 *   rewritten  one file without a name, of COUNT MiB, of which a byte changes in each turn
 *   none       nothing
 *
 * Ranks meet every 10 ms. Rank 0 prints a line when all are ready. It ends when it is stopped.
 */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ul
#define MAPPINGS_BYTES (1ul << 30)

static int rank, rewritten = -1;

static void fail(const char *what)
{
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static int checked(int result, const char *what)
{
    if (result < 0)
        fail(what);
    return result;
}

static int open_file(int number, int flags)
{
    char name[64];
    snprintf(name, sizeof name, "thing-%d-%d", rank, number);
    return checked(open(name, O_RDWR | O_CREAT | flags, 0600), name);
}

static void make_file(int number)
{
    open_file(number, 0);
}

static void make_one(int number)
{
    (void)number;
    open_file(0, 0);
}

static void make_copy(int number)
{
    static int first = -1;
    (void)number;
    if (first < 0)
        first = open_file(0, 0);
    checked(dup(first), "dup");
}

static void make_deleted(int number)
{
    (void)number;
    checked(open(".", O_RDWR | O_TMPFILE, 0600), "O_TMPFILE");
}

/* One file for all: a MiB longer each time. A byte of it changes in each turn of the program. */
static void make_rewritten(int number)
{
    static char bytes[1 << 20];
    if (number == 0)
        rewritten = checked(open(".", O_RDWR | O_TMPFILE, 0600), "O_TMPFILE");
    memset(bytes, number + 1, sizeof bytes);
    checked((int)write(rewritten, bytes, sizeof bytes), "write");
}

static void rewrite(void)
{
    static char turn;
    turn++;
    if (rewritten >= 0)
        checked((int)pwrite(rewritten, &turn, 1, 0), "pwrite");
}

static void make_pipe(int number)
{
    int ends[2];
    (void)number;
    checked(pipe(ends), "pipe");
}

static void make_full_pipe(int number)
{
    int ends[2];
    char bytes[100] = "";
    (void)number;
    checked(pipe(ends), "pipe");
    checked((int)write(ends[1], bytes, sizeof bytes), "write");
}

static void make_pair(int number)
{
    int pair[2];
    (void)number;
    checked(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
}

static void make_listener(int number)
{
    (void)number;
    int fd = checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
    checked(listen(fd, 5), "listen");
}

static int make_event_fd(void)
{
    return checked(eventfd(0, 0), "eventfd");
}

static void make_event(int number)
{
    (void)number;
    make_event_fd();
}

static void make_alarm(int number)
{
    struct itimerspec setting = {{0, 0}, {100000 + number, 0}};
    int fd = checked(timerfd_create(CLOCK_MONOTONIC, 0), "timerfd_create");
    checked(timerfd_settime(fd, 0, &setting, NULL), "timerfd_settime");
}

static void make_watched(int number)
{
    static int watcher = -1;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = number};
    if (watcher < 0)
        watcher = checked(epoll_create1(0), "epoll_create1");
    checked(epoll_ctl(watcher, EPOLL_CTL_ADD, make_event_fd(), &event), "epoll_ctl");
}

static void make_timer(int number)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    struct itimerspec setting = {{0, 0}, {100000 + number, 0}};
    checked(timer_create(CLOCK_MONOTONIC, &event, &timer), "timer_create");
    checked(timer_settime(timer, 0, &setting, NULL), "timer_settime");
}

static void *sleep_for_ever(void *unused)
{
    (void)unused;
    for (;;)
        pause();
    return NULL;
}

static void make_thread(int number)
{
    pthread_t thread;
    pthread_attr_t attributes;
    (void)number;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    if (pthread_create(&thread, &attributes, sleep_for_ever, NULL))
        fail("pthread_create");
}

/* Each of another protection than its neighbours, so that the kernel does not join them. */
static void make_mapping(int number)
{
    static char *next;
    int protection = number % 2 ? PROT_READ : PROT_READ | PROT_WRITE;
    if (!next)
        next = mmap(NULL, MAPPINGS_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (next == MAP_FAILED || mmap(next, PAGE, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        fail("mmap");
    *next = (char)number;
    checked(mprotect(next, PAGE, protection), "mprotect");
    next += PAGE;
}

static void make_issend(int number)
{
    static int value;
    MPI_Request request;
    if (rank == 0)
        MPI_Issend(&value, 1, MPI_INT, 1, number % 30000, MPI_COMM_WORLD, &request);
}

static void make_communicator(int number)
{
    MPI_Comm comm;
    (void)number;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
}

static void make_nothing(int number)
{
    (void)number;
}

static const struct kind {
    const char *name;
    void (*make)(int number);
} kinds[] = {
    {"files", make_file},      {"one", make_one},
    {"copies", make_copy},     {"deleted", make_deleted},
    {"pipes", make_pipe},      {"full", make_full_pipe},
    {"pairs", make_pair},      {"listening", make_listener},
    {"events", make_event},    {"alarms", make_alarm},
    {"watched", make_watched}, {"timers", make_timer},
    {"threads", make_thread},  {"mappings", make_mapping},
    {"issends", make_issend},  {"communicators", make_communicator},
    {"none", make_nothing},    {"rewritten", make_rewritten},
};

static const struct kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    fprintf(stderr, "things: there is no kind %s\n", name);
    MPI_Abort(MPI_COMM_WORLD, 2);
    return NULL;
}

int main(int argc, char **argv)
{
    struct rlimit limit;
    struct timespec pause = {0, 10000000};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const struct kind *kind = find_kind(argc > 1 ? argv[1] : "none");
    int count = argc > 2 ? atoi(argv[2]) : 0;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < count; i++)
        kind->make(i);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("ready\n");
        fflush(stdout);
    }
    for (;;) {
        MPI_Barrier(MPI_COMM_WORLD);
        rewrite();
        nanosleep(&pause, NULL);
    }
}
