/*
 * sleepy - timed waits of every kind: each must last as long as it was told, and report a plain timeout.
 */
#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/program.h"

/* Each waits for `seconds` and returns 0 if the wait reported nothing but that the time is over. */

static struct timespec timespec_of(double seconds)
{
    return (struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
}

static int wait_nanosleep(double seconds)
{
    struct timespec time = timespec_of(seconds);
    return nanosleep(&time, NULL);
}

static int wait_clock_nanosleep(double seconds)
{
    struct timespec until = timespec_of(seconds_now() + seconds);
    return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static int wait_poll(double seconds)
{
    return poll(NULL, 0, (int)(seconds * 1e3 + 0.5));
}

static int wait_select(double seconds)
{
    struct timeval time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e6)};
    return select(0, NULL, NULL, NULL, &time);
}

static int wait_epoll(double seconds)
{
    struct epoll_event event;
    int set = epoll_create1(EPOLL_CLOEXEC);
    int result = epoll_wait(set, &event, 1, (int)(seconds * 1e3 + 0.5));
    close(set);
    return result;
}

static int wait_signal(double seconds)
{
    struct timespec time = timespec_of(seconds);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return sigtimedwait(&set, NULL, &time) == -1 && errno == EAGAIN ? 0 : -1;
}

static struct timespec realtime_after(double seconds)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return timespec_of((double)now.tv_sec + (double)now.tv_nsec * 1e-9 + seconds);
}

static int wait_semaphore(double seconds)
{
    struct timespec until = realtime_after(seconds);
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    int result = sem_timedwait(&semaphore, &until) == -1 && errno == ETIMEDOUT ? 0 : -1;
    sem_destroy(&semaphore);
    return result;
}

static int wait_condition(double seconds)
{
    struct timespec until = realtime_after(seconds);
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&lock);
    int result;
    while ((result = pthread_cond_timedwait(&condition, &lock, &until)) == 0)
        ; /* woken without a cause, which the standard allows */
    pthread_mutex_unlock(&lock);
    return result == ETIMEDOUT ? 0 : -1;
}

static const struct {
    const char *name;
    int (*wait)(double seconds);
} waits[] = {
    {"nanosleep", wait_nanosleep},
    {"clock_nanosleep", wait_clock_nanosleep},
    {"poll", wait_poll},
    {"select", wait_select},
    {"epoll_wait", wait_epoll},
    {"sigtimedwait", wait_signal},
    {"sem_timedwait", wait_semaphore},
    {"pthread_cond_timedwait", wait_condition},
};

#define WAITS (long)(sizeof(waits) / sizeof(waits[0]))

int main(int argc, char **argv)
{
    struct program program = {.steps = WAITS, .seconds = 4};
    MPI_Init(&argc, &argv);
    program_begin(&program, "sleepy", argc, argv);
    double each = program.seconds / (double)program.steps;
    program.seconds = 0;
    for (long step = 1; step <= program.steps; step++) {
        long which = (step + program.rank) % WAITS;
        double start = seconds_now();
        int result = waits[which].wait(each);
        double took = seconds_now() - start;
        if (result != 0)
            fail(&program, "%s returned %d (errno %d)", waits[which].name, result, errno);
        if (took < each - 0.002) /* realtime and millisecond waits are rounded */
            fail(&program, "%s lasted %.3f s instead of %.3f s", waits[which].name, took, each);
        MPI_Barrier(MPI_COMM_WORLD);
        digest_add_number(&program.digest, (uint64_t)which);
        program_step(&program, step);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
