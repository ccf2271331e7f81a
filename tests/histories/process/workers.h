/*
 * workers.h - a thread that waits for work in one of several ways, does it when told, and answers.
 */
#ifndef BELAY_TESTS_HISTORIES_PROCESS_WORKERS_H
#define BELAY_TESTS_HISTORIES_PROCESS_WORKERS_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

/* How it waits. */
enum worker_way {
    WORKER_CONDITION = 0,
    WORKER_SEMAPHORE,
    WORKER_PIPE,
    WORKER_EVENT,
    WORKER_FUTEX,
    WORKER_BARRIER,
    WORKER_SIGNAL,
    WORKER_SLEEP,
    WORKER_WAYS,
};

struct worker {
    bool is_there;
    enum worker_way way;
    pthread_t id;
    uint64_t (*work)(struct worker *w, uint64_t argument); /* NULL: end */
    uint64_t argument, result;
    bool is_leaving_by_exit, takes_signals;
    int place;
    sem_t done;
    uint32_t turn; /* even: nothing to do */
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    sem_t go;
    pthread_barrier_t barrier;
    int pipe[2], event;
};

/* Start it; all signals are blocked in it. An error number. */
int worker_start(struct worker *w, int place, enum worker_way way);

/* Let it do this, and wait until it has. */
uint64_t worker_do(struct worker *w, uint64_t (*work)(struct worker *w, uint64_t argument),
                   uint64_t argument);

/* Let it end, and join it: what it returned. */
uintptr_t worker_end(struct worker *w, bool is_by_exit);

/* Cancel it where it waits, and join it: true if it was cancelled. */
bool worker_cancel(struct worker *w);

#endif
