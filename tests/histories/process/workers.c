/*
 * workers.c - threads that wait in different ways.
 */
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/histories/process/workers.h"

static int call_signal(void)
{
    return SIGRTMIN + 7;
}

static uint32_t turn_of(const struct worker *w)
{
    return __atomic_load_n(&w->turn, __ATOMIC_ACQUIRE);
}

/* ---- the waiting side ---- */

static void unlock(void *mutex)
{
    pthread_mutex_unlock(mutex);
}

static void wait_condition(struct worker *w)
{
    pthread_mutex_lock(&w->mutex);
    pthread_cleanup_push(unlock, &w->mutex);
    while (turn_of(w) % 2 == 0)
        pthread_cond_wait(&w->condition, &w->mutex);
    pthread_cleanup_pop(1);
}

static void wait_futex(struct worker *w)
{
    for (uint32_t turn = turn_of(w); turn % 2 == 0; turn = turn_of(w)) {
        pthread_testcancel();
        syscall(SYS_futex, &w->turn, FUTEX_WAIT_PRIVATE, turn, NULL, NULL, 0);
    }
}

static void wait_sleep(struct worker *w)
{
    const struct timespec nap = {0, 1000000};
    while (turn_of(w) % 2 == 0)
        nanosleep(&nap, NULL);
}

static void wait_signal(void)
{
    sigset_t set;
    int number;
    sigemptyset(&set);
    sigaddset(&set, call_signal());
    sigwait(&set, &number);
}

static void wait_work(struct worker *w)
{
    uint64_t value;
    if (w->way == WORKER_CONDITION)
        wait_condition(w);
    else if (w->way == WORKER_SEMAPHORE)
        sem_wait(&w->go);
    else if (w->way == WORKER_PIPE)
        value = (uint64_t)read(w->pipe[0], &value, 1);
    else if (w->way == WORKER_EVENT)
        value = (uint64_t)read(w->event, &value, sizeof value);
    else if (w->way == WORKER_FUTEX)
        wait_futex(w);
    else if (w->way == WORKER_BARRIER)
        pthread_barrier_wait(&w->barrier);
    else if (w->way == WORKER_SIGNAL)
        wait_signal();
    else
        wait_sleep(w);
}

static void *live(void *argument)
{
    struct worker *w = argument;
    char mine[3000] = "";
    for (uintptr_t count = 0;; count++) {
        wait_work(w);
        mine[count % sizeof mine]++;
        if (!w->work && w->is_leaving_by_exit)
            pthread_exit((void *)(count + (uintptr_t)mine[0]));
        if (!w->work)
            return (void *)(count + (uintptr_t)mine[0]);
        w->result = w->work(w, w->argument);
        __atomic_add_fetch(&w->turn, 1, __ATOMIC_RELEASE);
        sem_post(&w->done);
    }
}

/* ---- the other side ---- */

int worker_start(struct worker *w, int place, enum worker_way way)
{
    sigset_t all, old;
    *w = (struct worker){.is_there = true, .place = place, .way = way};
    sem_init(&w->done, 0, 0);
    sem_init(&w->go, 0, 0);
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->condition, NULL);
    pthread_barrier_init(&w->barrier, NULL, 2);
    if (way == WORKER_PIPE && pipe(w->pipe))
        way = w->way = WORKER_SEMAPHORE;
    if (way == WORKER_EVENT)
        w->event = eventfd(0, EFD_CLOEXEC);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&w->id, NULL, live, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    w->is_there = error == 0;
    return error;
}

static void wake_condition(struct worker *w)
{
    pthread_mutex_lock(&w->mutex);
    __atomic_add_fetch(&w->turn, 1, __ATOMIC_RELEASE);
    pthread_cond_signal(&w->condition);
    pthread_mutex_unlock(&w->mutex);
}

static void wake(struct worker *w)
{
    uint64_t one = 1;
    if (w->way == WORKER_CONDITION) {
        wake_condition(w);
        return;
    }
    __atomic_add_fetch(&w->turn, 1, __ATOMIC_RELEASE);
    if (w->way == WORKER_SEMAPHORE)
        sem_post(&w->go);
    else if (w->way == WORKER_PIPE)
        one = (uint64_t)write(w->pipe[1], "g", 1);
    else if (w->way == WORKER_EVENT)
        one = (uint64_t)write(w->event, &one, sizeof one);
    else if (w->way == WORKER_FUTEX)
        syscall(SYS_futex, &w->turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    else if (w->way == WORKER_BARRIER)
        pthread_barrier_wait(&w->barrier);
    else if (w->way == WORKER_SIGNAL)
        pthread_kill(w->id, call_signal());
}

uint64_t worker_do(struct worker *w, uint64_t (*work)(struct worker *w, uint64_t argument), uint64_t argument)
{
    w->work = work;
    w->argument = argument;
    wake(w);
    while (sem_wait(&w->done))
        ;
    return w->result;
}

static void close_both(struct worker *w)
{
    if (w->way == WORKER_PIPE) {
        close(w->pipe[0]);
        close(w->pipe[1]);
    }
    if (w->way == WORKER_EVENT)
        close(w->event);
    w->is_there = false;
}

uintptr_t worker_end(struct worker *w, bool is_by_exit)
{
    void *result = NULL;
    w->work = NULL;
    w->is_leaving_by_exit = is_by_exit;
    wake(w);
    pthread_join(w->id, &result);
    close_both(w);
    return (uintptr_t)result;
}

/* Neither a barrier nor a futex call of one's own is a place to be cancelled at. */
bool worker_cancel(struct worker *w)
{
    void *result = NULL;
    pthread_cancel(w->id);
    if (w->way == WORKER_BARRIER || w->way == WORKER_FUTEX) {
        w->work = NULL;
        wake(w);
    }
    pthread_join(w->id, &result);
    close_both(w);
    return result == PTHREAD_CANCELED;
}
