/*
 * time_waits - timed waits of every kind, each in a thread of its own, again and again: each must last as
 * long as it was told, and report a plain timeout. The clocks must never step back meanwhile.
 *
 *     --mode sockets    those on sockets, which a restart does not bring back
 */
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/un.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define WAIT_S 0.7    /* longer than the interval of the lines */
#define EARLY_S 0.012 /* how much earlier a wait may end: units of ms, ticks of the coarse clocks */
#define LATE_S 30.0   /* how much later: the machine is busy, a restart takes its time */

static int semaphores, messages; /* System V */

static struct timespec timespec_of(double seconds)
{
    return (struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
}

static struct timespec after(clockid_t clock, double seconds)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return timespec_of((double)now.tv_sec + (double)now.tv_nsec * 1e-9 + seconds);
}

static int is(int result, int error)
{
    return result == -1 && errno == error ? 0 : -1;
}

/* Each waits for `seconds` and returns 0 if the wait reported nothing but that the time is over. */

static int wait_nanosleep(double seconds)
{
    struct timespec time = timespec_of(seconds);
    return nanosleep(&time, NULL);
}

static int wait_clock_nanosleep(double seconds)
{
    struct timespec time = timespec_of(seconds);
    return clock_nanosleep(CLOCK_BOOTTIME, 0, &time, NULL);
}

static int wait_until_monotonic(double seconds)
{
    struct timespec until = after(CLOCK_MONOTONIC, seconds);
    return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static int wait_until_realtime(double seconds)
{
    struct timespec until = after(CLOCK_REALTIME, seconds);
    return clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL);
}

static int wait_thrd_sleep(double seconds)
{
    struct timespec time = timespec_of(seconds);
    return thrd_sleep(&time, NULL);
}

static int wait_poll(double seconds)
{
    return poll(NULL, 0, (int)(seconds * 1e3 + 0.5));
}

static int wait_ppoll(double seconds)
{
    struct timespec time = timespec_of(seconds);
    sigset_t all;
    sigfillset(&all);
    return ppoll(NULL, 0, &time, &all);
}

static int wait_select(double seconds)
{
    struct timeval time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e6)};
    return select(0, NULL, NULL, NULL, &time);
}

static int wait_pselect(double seconds)
{
    struct timespec time = timespec_of(seconds);
    sigset_t all;
    sigfillset(&all);
    return pselect(0, NULL, NULL, NULL, &time, &all);
}

static int wait_epoll(double seconds)
{
    struct epoll_event event;
    sigset_t all;
    int set = epoll_create1(EPOLL_CLOEXEC);
    sigfillset(&all);
    int result = epoll_wait(set, &event, 1, (int)(seconds * 500)) |
                 epoll_pwait(set, &event, 1, (int)(seconds * 500 + 1), &all);
    close(set);
    return result;
}

/* All signals: a thread that collects those of the process waits like this. */
static int wait_signal(double seconds)
{
    struct timespec time = timespec_of(seconds);
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    return is(sigtimedwait(&all, NULL, &time), EAGAIN);
}

static int wait_semaphore(double seconds)
{
    sem_t semaphore;
    struct timespec until = after(CLOCK_REALTIME, seconds / 2);
    sem_init(&semaphore, 0, 0);
    int result = is(sem_timedwait(&semaphore, &until), ETIMEDOUT);
    until = after(CLOCK_MONOTONIC, seconds / 2);
    result |= is(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until), ETIMEDOUT);
    sem_destroy(&semaphore);
    return result;
}

static int wait_condition_of(clockid_t clock, double seconds)
{
    struct timespec until = after(clock, seconds);
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, clock);
    pthread_cond_init(&condition, &attributes);
    pthread_mutex_lock(&lock);
    int result;
    while ((result = pthread_cond_timedwait(&condition, &lock, &until)) == 0)
        ; /* woken without a cause, which the standard allows */
    pthread_mutex_unlock(&lock);
    return result == ETIMEDOUT ? 0 : -1;
}

static int wait_condition_realtime(double seconds)
{
    return wait_condition_of(CLOCK_REALTIME, seconds);
}

static int wait_condition_monotonic(double seconds)
{
    return wait_condition_of(CLOCK_MONOTONIC, seconds);
}

static int wait_locks(double seconds)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_rwlock_t other = PTHREAD_RWLOCK_INITIALIZER;
    struct timespec until = after(CLOCK_REALTIME, seconds / 2);
    pthread_mutex_lock(&lock);
    int first = pthread_mutex_timedlock(&lock, &until);
    pthread_rwlock_rdlock(&other);
    until = after(CLOCK_MONOTONIC, seconds / 2);
    int second = pthread_rwlock_clockwrlock(&other, CLOCK_MONOTONIC, &until);
    pthread_rwlock_unlock(&other);
    pthread_mutex_unlock(&lock);
    return first == ETIMEDOUT && second == ETIMEDOUT ? 0 : -1;
}

static int wait_timerfd_with(clockid_t clock, int flags, double seconds)
{
    struct itimerspec setting = {.it_value = flags ? after(clock, seconds) : timespec_of(seconds)};
    uint64_t expired = 0;
    int timer = timerfd_create(clock, TFD_CLOEXEC);
    timerfd_settime(timer, flags, &setting, NULL);
    ssize_t got = read(timer, &expired, sizeof expired);
    close(timer);
    return got == sizeof expired && expired == 1 ? 0 : -1;
}

static int wait_timerfd(double seconds)
{
    return wait_timerfd_with(CLOCK_MONOTONIC, 0, seconds);
}

static int wait_timerfd_until(double seconds)
{
    return wait_timerfd_with(CLOCK_BOOTTIME, TFD_TIMER_ABSTIME, seconds / 2) |
           wait_timerfd_with(CLOCK_MONOTONIC, TFD_TIMER_ABSTIME, seconds / 2);
}

static int wait_semtimedop(double seconds)
{
    struct sembuf take = {0, -1, 0};
    struct timespec time = timespec_of(seconds);
    return is(semtimedop(semaphores, &take, 1, &time), EAGAIN);
}

static void *send_message(void *argument)
{
    struct timespec time = timespec_of(*(double *)argument);
    struct msgbuf message = {.mtype = 1};
    nanosleep(&time, NULL);
    return msgsnd(messages, &message, 0, 0) ? &messages : NULL;
}

/* No timeout of its own, but never restarted by the kernel. */
static int wait_message(double seconds)
{
    pthread_t sender;
    struct msgbuf message;
    void *failed = NULL;
    pthread_create(&sender, NULL, send_message, &seconds);
    int result = msgrcv(messages, &message, 0, 1, 0) == 0 ? 0 : -1;
    pthread_join(sender, &failed);
    return failed ? -1 : result;
}

static void *sleep_a_while(void *argument)
{
    struct timespec time = timespec_of(*(double *)argument);
    nanosleep(&time, NULL);
    return NULL;
}

static int wait_join(double seconds)
{
    pthread_t sleeper;
    double longer = seconds + 0.2;
    struct timespec until = after(CLOCK_REALTIME, seconds);
    pthread_create(&sleeper, NULL, sleep_a_while, &longer);
    int result = pthread_timedjoin_np(sleeper, NULL, &until);
    pthread_join(sleeper, NULL);
    return result == ETIMEDOUT ? 0 : -1;
}

/* ---- sockets ---- */

static void set_timeout(int fd, int option, double seconds)
{
    struct timeval time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e6)};
    setsockopt(fd, SOL_SOCKET, option, &time, sizeof time);
}

/* The timeout must be what it was: an interrupted call shortens it for its rest. */
static int has_timeout(int fd, int option, double seconds)
{
    struct timeval time;
    socklen_t bytes = sizeof time;
    getsockopt(fd, SOL_SOCKET, option, &time, &bytes);
    double got = (double)time.tv_sec + (double)time.tv_usec * 1e-6;
    return got > seconds - EARLY_S && got < seconds + EARLY_S;
}

static int wait_receive(double seconds)
{
    int pair[2];
    char byte;
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
    set_timeout(pair[0], SO_RCVTIMEO, seconds / 2);
    int result = is((int)recv(pair[0], &byte, 1, 0), EAGAIN) | is((int)read(pair[0], &byte, 1), EAGAIN);
    if (!has_timeout(pair[0], SO_RCVTIMEO, seconds / 2))
        result = -1;
    close(pair[0]);
    close(pair[1]);
    return result;
}

static int wait_send(double seconds)
{
    static const char block[4096];
    int pair[2];
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
    while (send(pair[0], block, sizeof block, MSG_DONTWAIT) > 0)
        ;
    set_timeout(pair[0], SO_SNDTIMEO, seconds);
    int result = is((int)send(pair[0], block, sizeof block, 0), EAGAIN);
    if (!has_timeout(pair[0], SO_SNDTIMEO, seconds))
        result = -1;
    close(pair[0]);
    close(pair[1]);
    return result;
}

static int wait_accept(double seconds)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX}; /* a name of its own, chosen by the kernel */
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bind(listener, (struct sockaddr *)&address, sizeof(sa_family_t));
    listen(listener, 1);
    set_timeout(listener, SO_RCVTIMEO, seconds);
    int result = is(accept(listener, NULL, NULL), EAGAIN);
    close(listener);
    return result;
}

/* ---- all of them ---- */

struct wait {
    const char *name;
    int (*wait)(double seconds);
    int is_on_socket;
    long rounds;
    struct program *program;
    pthread_t thread;
};

static struct wait waits[] = {
    {.name = "nanosleep", .wait = wait_nanosleep},
    {.name = "clock_nanosleep", .wait = wait_clock_nanosleep},
    {.name = "clock_nanosleep until", .wait = wait_until_monotonic},
    {.name = "clock_nanosleep until (realtime)", .wait = wait_until_realtime},
    {.name = "thrd_sleep", .wait = wait_thrd_sleep},
    {.name = "poll", .wait = wait_poll},
    {.name = "ppoll", .wait = wait_ppoll},
    {.name = "select", .wait = wait_select},
    {.name = "pselect", .wait = wait_pselect},
    {.name = "epoll_wait", .wait = wait_epoll},
    {.name = "sigtimedwait", .wait = wait_signal},
    {.name = "sem_timedwait", .wait = wait_semaphore},
    {.name = "pthread_cond_timedwait", .wait = wait_condition_realtime},
    {.name = "pthread_cond_timedwait (monotonic)", .wait = wait_condition_monotonic},
    {.name = "pthread_mutex_timedlock", .wait = wait_locks},
    {.name = "timerfd", .wait = wait_timerfd},
    {.name = "timerfd until", .wait = wait_timerfd_until},
    {.name = "semtimedop", .wait = wait_semtimedop},
    {.name = "msgrcv", .wait = wait_message},
    {.name = "pthread_timedjoin_np", .wait = wait_join},
    {.name = "recv", .wait = wait_receive, .is_on_socket = 1},
    {.name = "send", .wait = wait_send, .is_on_socket = 1},
    {.name = "accept", .wait = wait_accept, .is_on_socket = 1},
};

#define WAITS (sizeof waits / sizeof waits[0])

static atomic_int running;

static void *wait_often(void *argument)
{
    struct wait *w = argument;
    for (long round = 0; round < w->rounds; round++) {
        double start = seconds_now();
        int result = w->wait(WAIT_S);
        double took = seconds_now() - start;
        if (result != 0)
            fail(w->program, "%s returned %d (errno %d) after %.3f s", w->name, result, errno, took);
        if (took < WAIT_S - EARLY_S || took > WAIT_S + LATE_S)
            fail(w->program, "%s lasted %.3f s instead of %.3f s", w->name, took, WAIT_S);
    }
    running--;
    return NULL;
}

/* What getrusage and times tell, which CPU_TIME of Fortran is made from. */
static void check_usage(const struct program *program)
{
    static double last[3];
    struct rusage usage[2];
    struct tms used;
    getrusage(RUSAGE_SELF, &usage[0]);
    getrusage(RUSAGE_THREAD, &usage[1]);
    double now[3] = {0, 0, (double)times(&used) + (double)(used.tms_utime + used.tms_stime) * 1e-3};
    for (int i = 0; i < 2; i++)
        now[i] = (double)(usage[i].ru_utime.tv_sec + usage[i].ru_stime.tv_sec) +
                 (double)(usage[i].ru_utime.tv_usec + usage[i].ru_stime.tv_usec) * 1e-6;
    for (int i = 0; i < 3; i++) {
        if (now[i] < last[i])
            fail(program, "processor time %d stepped back from %.6f to %.6f", i, last[i], now[i]);
        last[i] = now[i];
    }
}

static void check_clocks(const struct program *program)
{
    static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW,      CLOCK_MONOTONIC_COARSE,
                                       CLOCK_BOOTTIME,  CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};
    static double last[6], last_wtime;
    for (int i = 0; i < 6; i++) {
        struct timespec now;
        clock_gettime(clocks[i], &now);
        double seconds = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
        if (seconds < last[i])
            fail(program, "clock %d stepped back from %.9f to %.9f", clocks[i], last[i], seconds);
        last[i] = seconds;
    }
    double wtime = MPI_Wtime();
    if (wtime < last_wtime || wtime > last_wtime + LATE_S)
        fail(program, "MPI_Wtime went from %.9f to %.9f", last_wtime, wtime);
    last_wtime = wtime;
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 4};
    int provided, all;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    program_begin(&program, "time_waits", argc, argv);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    messages = msgget(IPC_PRIVATE, 0600);
    for (size_t i = 0; i < WAITS; i++) {
        if (waits[i].is_on_socket && strcmp(program.mode, "sockets") != 0)
            continue;
        waits[i].rounds = program.steps;
        waits[i].program = &program;
        running++;
        pthread_create(&waits[i].thread, NULL, wait_often, &waits[i]);
    }
    for (long step = 1, mine = 1; mine; step++) {
        struct timespec pause = {0, 20000000};
        nanosleep(&pause, NULL);
        check_clocks(&program);
        check_usage(&program);
        mine = running > 0;
        int more = (int)mine;
        MPI_Allreduce(&more, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        mine = all;
        program_step(&program, step);
    }
    for (size_t i = 0; i < WAITS; i++)
        if (waits[i].rounds)
            pthread_join(waits[i].thread, NULL);
    semctl(semaphores, 0, IPC_RMID);
    msgctl(messages, IPC_RMID, NULL);
    program_end(&program);
    MPI_Finalize();
    return 0;
}
