/* kernel_ids_mutexes.c - mutexes that are held across a restart: their words hold an id (kernel_ids.h). */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "tests/programs/kernel_ids.h"

#define HELPER_MS 2000

static pthread_mutex_t checked, recursive, robust, inheriting;

static long lock_all(void)
{
    return pthread_mutex_lock(&checked) || pthread_mutex_lock(&recursive) || pthread_mutex_lock(&recursive) ||
           pthread_mutex_lock(&robust) || pthread_mutex_lock(&inheriting);
}

static long try_all(void)
{
    return pthread_mutex_trylock(&checked) + 100l * pthread_mutex_trylock(&recursive) +
           10000l * pthread_mutex_trylock(&robust) + 1000000l * pthread_mutex_trylock(&inheriting);
}

static long unlock_as_stranger(void)
{
    return pthread_mutex_unlock(&checked) + 100l * pthread_mutex_unlock(&recursive);
}

/* They were locked in the step before, by the main thread. */
long held_mutexes(void)
{
    long again = pthread_mutex_lock(&checked), others = on_helper(try_all);
    long strange = on_helper(unlock_as_stranger);
    if (again != EDEADLK || pthread_mutex_unlock(&checked) || pthread_mutex_unlock(&recursive) ||
        pthread_mutex_unlock(&recursive) || pthread_mutex_unlock(&robust) ||
        pthread_mutex_unlock(&inheriting))
        return -1;
    return lock_all() ? -2 : others + 7 * strange;
}

static long lock_in_turn(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += HELPER_MS / 1000;
    int error = pthread_mutex_timedlock(&inheriting, &until);
    return error ? error : pthread_mutex_unlock(&inheriting);
}

/* The other thread waits in the kernel for one that this thread holds; then the other way round. */
long contended_mutex(void)
{
    struct timespec shortly = {0, 5000000};
    helper_start(lock_in_turn);
    nanosleep(&shortly, NULL);
    int error = pthread_mutex_unlock(&inheriting);
    long answer = helper_end();
    return error + 100 * answer + 10000l * pthread_mutex_lock(&inheriting);
}

/* A thread that ends with a robust mutex leaves it to the next one. */
static void *leave_locked(void *mutex)
{
    pthread_mutex_lock(mutex);
    return NULL;
}

long abandoned_mutex(void)
{
    static pthread_mutex_t left[2];
    long answer = 0;
    for (int i = 0; i < 2; i++) {
        pthread_mutexattr_t kind;
        pthread_t thread;
        pthread_mutexattr_init(&kind);
        pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
        pthread_mutexattr_setprotocol(&kind, i ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE);
        pthread_mutex_init(&left[i], &kind);
        if (pthread_create(&thread, NULL, leave_locked, &left[i]))
            return failed();
        pthread_join(thread, NULL);
        int error = pthread_mutex_lock(&left[i]);
        answer = 1000 * answer + error;
        if (error == EOWNERDEAD)
            pthread_mutex_consistent(&left[i]);
        pthread_mutex_unlock(&left[i]);
        pthread_mutex_destroy(&left[i]);
    }
    return answer;
}

void mutexes_make(void)
{
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checked, &kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_NORMAL);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &kind);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_STALLED);
    pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&inheriting, &kind);
    lock_all();
}
