/*
 * threads.c - threads beside the main one: they wait for work across steps, have data, names, masks and locks
 * of their own, and end in all ways.
 */
#include "tests/histories/process/workers.h"

#include <errno.h>
#include <fenv.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/core/world.h"

#define WORKERS 8
#define CROWD 40
#define MUTEXES 4
#define LOCAL_BYTES 2000

static struct worker workers[WORKERS];
static __thread char local[LOCAL_BYTES];
static __thread uint64_t local_count;
static pthread_key_t key;
static int destroyed; /* values of the key whose destructor has run */
static pthread_mutex_t mutexes[MUTEXES];
static int owners[MUTEXES]; /* -1: nobody, else a worker */
static pthread_rwlock_t readers = PTHREAD_RWLOCK_INITIALIZER;

/* ---- what workers do ---- */

static uint64_t use_local(struct worker *w, uint64_t argument)
{
    (void)w;
    fill(local + argument % (LOCAL_BYTES / 2), LOCAL_BYTES / 4, argument);
    return sum_of(local, sizeof local) + ++local_count;
}

static uint64_t use_key(struct worker *w, uint64_t argument)
{
    (void)w;
    uint64_t *value = pthread_getspecific(key);
    if (!value) {
        value = calloc(1, sizeof *value);
        pthread_setspecific(key, value);
    }
    *value += argument;
    return *value;
}

static uint64_t use_memory(struct worker *w, uint64_t argument)
{
    size_t bytes = 1000 + argument % 300000;
    (void)w;
    char *memory = malloc(bytes), *mapped;
    fill(memory, bytes, argument);
    mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(mapped, memory, bytes);
    uint64_t sum = sum_of(mapped, bytes);
    munmap(mapped, bytes);
    free(memory);
    return sum;
}

static uint64_t use_name(struct worker *w, uint64_t argument)
{
    char name[16] = "";
    (void)w;
    pthread_getname_np(pthread_self(), name, sizeof name);
    uint64_t sum = sum_of(name, strlen(name));
    memcpy(name, "worker-a", 9);
    name[7] = (char)('a' + argument % 26);
    pthread_setname_np(pthread_self(), name);
    return sum % 1000003;
}

static uint64_t use_mask(struct worker *w, uint64_t argument)
{
    sigset_t set, old;
    (void)w;
    sigemptyset(&set);
    sigaddset(&set, argument % 2 ? SIGCONT : SIGTSTP);
    pthread_sigmask(argument % 3 ? SIG_BLOCK : SIG_UNBLOCK, &set, &old);
    return (uint64_t)(sigismember(&old, SIGCONT) * 2 + sigismember(&old, SIGTSTP));
}

static uint64_t use_rounding(struct worker *w, uint64_t argument)
{
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    (void)w;
    int old = fegetround();
    fesetround(modes[argument % 4]);
    return (uint64_t)old;
}

static uint64_t use_id(struct worker *w, uint64_t argument)
{
    static __thread pid_t mine;
    (void)argument;
    if (!mine)
        mine = gettid();
    return (uint64_t)(mine == gettid()) * 2 + (uint64_t)pthread_equal(w->id, pthread_self());
}

/* ---- a signal for a thread ---- */

static __thread volatile sig_atomic_t handled;
static sem_t has_handled;

static int thread_signal(void)
{
    return SIGRTMIN + 8;
}

static void handle(int number)
{
    (void)number;
    handled++;
    sem_post(&has_handled);
}

static uint64_t use_signal(struct worker *w, uint64_t argument)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, thread_signal());
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    w->takes_signals = true;
    return (uint64_t)handled + argument % 2;
}

/* ---- operations ---- */

static struct worker *choose(void)
{
    struct worker *w = &workers[pick(WORKERS)];
    say(" %d", w ? (int)(w - workers) : 0);
    return w->is_there ? w : NULL;
}

static void act_start(void)
{
    struct worker *w = &workers[pick(WORKERS)];
    enum worker_way way = (enum worker_way)pick(WORKER_WAYS);
    if (w->is_there)
        return;
    say(" %d way %d", (int)(w - workers), (int)way);
    answer_error(worker_start(w, (int)(w - workers), way));
}

static void act_work(void)
{
    static const struct {
        const char *name;
        uint64_t (*work)(struct worker *w, uint64_t argument);
    } works[] = {{"local", use_local},       {"signal", use_signal}, {"key", use_key},
                 {"memory", use_memory},     {"name", use_name},     {"mask", use_mask},
                 {"rounding", use_rounding}, {"id", use_id}};
    size_t which = pick(8);
    uint64_t argument = roll() % 1000000;
    struct worker *w = choose();
    if (w)
        say(" %s %llx", works[which].name, (unsigned long long)worker_do(w, works[which].work, argument));
}

/* A handler runs in the thread, which waits on afterwards. */
static void act_interrupt(void)
{
    struct worker *w = choose();
    if (!w || !w->takes_signals)
        return;
    answer_error(pthread_kill(w->id, thread_signal()));
    while (sem_wait(&has_handled))
        ;
}

/* Mutexes are given back first: to hold one at the end is a case of its own. */
static uint64_t release_all(struct worker *w, uint64_t argument)
{
    (void)argument;
    for (int i = 0; i < MUTEXES; i++)
        if (owners[i] == w->place) {
            pthread_mutex_unlock(&mutexes[i]);
            owners[i] = -1;
        }
    return 0;
}

static void act_end(void)
{
    bool is_by_exit = chance(50);
    struct worker *w = choose();
    if (!w)
        return;
    worker_do(w, release_all, 0);
    say(" returned %lu, destroyed %d", (unsigned long)worker_end(w, is_by_exit), destroyed);
}

static void act_cancel(void)
{
    struct worker *w = choose();
    if (!w)
        return;
    worker_do(w, release_all, 0);
    say(" %s, destroyed %d", worker_cancel(w) ? "cancelled" : "ended", destroyed);
}

static void *add_one(void *sum)
{
    __atomic_add_fetch((long *)sum, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* Many at once, some with small stacks. */
static void act_crowd(void)
{
    pthread_t ids[CROWD];
    pthread_attr_t attributes;
    long sum = 0;
    size_t count = 1 + pick(CROWD);
    sigset_t all, old;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (size_t i = 0; i < count; i++)
        if (pthread_create(&ids[i], i % 2 ? &attributes : NULL, add_one, &sum))
            wrong("thread %zu", i);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    for (size_t i = 0; i < count; i++)
        pthread_join(ids[i], NULL);
    pthread_attr_destroy(&attributes);
    say(" %ld", sum);
}

/* ---- locks ---- */

static uint64_t lock_mutex(struct worker *w, uint64_t place)
{
    int error = pthread_mutex_trylock(&mutexes[place]);
    if (error == 0)
        owners[place] = w->place;
    return (uint64_t)error;
}

static uint64_t unlock_mutex(struct worker *w, uint64_t place)
{
    (void)w;
    int error = pthread_mutex_unlock(&mutexes[place]);
    owners[place] = -1;
    return (uint64_t)error;
}

/* By its owner, if it has one; else by the worker. The main thread sees whether it is free. */
static void act_mutex(void)
{
    size_t place = pick(MUTEXES);
    struct worker *w = choose();
    say(" mutex %zu", place);
    if (!w)
        return;
    if (owners[place] >= 0)
        answer_error((int)worker_do(&workers[owners[place]], unlock_mutex, place));
    else
        answer_error((int)worker_do(w, lock_mutex, place));
    int error = answer_error(pthread_mutex_trylock(&mutexes[place]));
    if (error == 0)
        pthread_mutex_unlock(&mutexes[place]);
}

static void act_readers(void)
{
    static int count;
    static bool is_writing;
    size_t way = pick(3);
    say(" way %zu", way);
    if (way == 0 && !is_writing && count < 10)
        count += answer_error(pthread_rwlock_tryrdlock(&readers)) == 0;
    else if (way == 1)
        is_writing |= !is_writing && answer_error(pthread_rwlock_trywrlock(&readers)) == 0;
    else if (count > 0 || is_writing) {
        answer_error(pthread_rwlock_unlock(&readers));
        count -= !is_writing;
        is_writing = false;
    }
}

static void *die_holding(void *mutex)
{
    pthread_mutex_lock(mutex);
    return NULL;
}

/* A thread ends with a robust mutex: the next owner is told. */
static void act_robust(void)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_t mutex;
    pthread_t id;
    sigset_t all, old;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &attributes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    answer_error(pthread_create(&id, NULL, die_holding, &mutex));
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_join(id, NULL);
    answer_error(pthread_mutex_lock(&mutex));
    answer_error(pthread_mutex_consistent(&mutex));
    answer_error(pthread_mutex_unlock(&mutex));
    pthread_mutex_destroy(&mutex);
    pthread_mutexattr_destroy(&attributes);
}

static const struct operation operations[] = {
    {"start", 6, act_start},   {"work", 14, act_work},          {"end", 3, act_end},
    {"cancel", 3, act_cancel}, {"interrupt", 3, act_interrupt}, {"crowd", 1, act_crowd},
    {"mutex", 6, act_mutex},   {"readers", 2, act_readers},     {"robust", 1, act_robust},
    {NULL, 0, NULL},
};

static void destroy(void *value)
{
    free(value);
    destroyed++;
}

static void begin(void)
{
    static const int types[MUTEXES] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
                                       PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP};
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigaction(thread_signal(), &action, NULL);
    sem_init(&has_handled, 0, 0);
    pthread_key_create(&key, destroy);
    for (int i = 0; i < MUTEXES; i++) {
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_settype(&attributes, types[i]);
        pthread_mutex_init(&mutexes[i], &attributes);
        pthread_mutexattr_destroy(&attributes);
        owners[i] = -1;
    }
}

static void observe(void)
{
    for (int i = 0; i < WORKERS; i++)
        if (workers[i].is_there)
            note("%d way %d: turn %u", i, (int)workers[i].way, workers[i].turn);
    note("destroyed %d", destroyed);
}

static void end(void)
{
    for (int i = 0; i < WORKERS; i++)
        if (workers[i].is_there)
            worker_end(&workers[i], false);
}

const struct kind kind_threads = {"threads", operations, .begin = begin, .observe = observe, .end = end};
