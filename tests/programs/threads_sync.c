/*
 * threads_sync - what threads use to get on with one another, beside MPI: every step exercises locks of all
 * kinds, barriers, cancellation, thread-specific data, threads that come and go, and what those inherit.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fenv.h>
#include <linux/futex.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define TEAM 3
#define SIGNAL_OF_TIMERS 32 /* of the C library, for SIGEV_THREAD and cancellation */

static struct program program = {.steps = 300};

static void expect(int is_true, const char *what)
{
    if (!is_true)
        fail(&program, "%s", what);
}

static void nap(long ms)
{
    struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

/* ---- a team that lives as long as the program ---- */

struct team {
    pthread_barrier_t barrier;
    pthread_rwlock_t lock;
    pthread_key_t key;
    pthread_t threads[TEAM];
    pid_t tids[TEAM], first_pid;
    atomic_int signals;
    uint64_t shared;
    long sum;
    int is_over;
};

static struct team team;

static void count_signal(int signal)
{
    (void)signal;
    team.signals++;
}

static void *work_in_team(void *argument)
{
    long number = (long)argument;
    uint64_t *own = calloc(1, sizeof *own);
    team.tids[number] = gettid();
    pthread_setspecific(team.key, own);
    for (;;) {
        pthread_barrier_wait(&team.barrier);
        if (team.is_over)
            return NULL;
        pthread_rwlock_rdlock(&team.lock);
        *own += team.shared;
        pthread_rwlock_unlock(&team.lock);
        expect(pthread_getspecific(team.key) == own, "thread-specific data is another's");
        expect(gettid() == team.tids[number], "a thread's id changed");
        pthread_rwlock_wrlock(&team.lock);
        team.sum += (long)(*own & 0xffff);
        pthread_rwlock_unlock(&team.lock);
        pthread_barrier_wait(&team.barrier);
    }
}

static void start_team(void)
{
    pthread_barrier_init(&team.barrier, NULL, TEAM + 1);
    pthread_rwlock_init(&team.lock, NULL);
    pthread_key_create(&team.key, free);
    team.first_pid = getpid();
    for (long i = 0; i < TEAM; i++)
        expect(pthread_create(&team.threads[i], NULL, work_in_team, (void *)i) == 0, "no thread");
}

static void step_of_team(long step)
{
    cpu_set_t cpus;
    struct timespec before, after;
    clockid_t clock;
    int victim = (int)(step % TEAM), signals = team.signals;
    team.shared = mix_number((uint64_t)program.rank, (uint64_t)step, 3);
    pthread_barrier_wait(&team.barrier);
    pthread_barrier_wait(&team.barrier);
    expect(pthread_kill(team.threads[victim], SIGUSR1) == 0, "pthread_kill");
    while (team.signals == signals)
        sched_yield();
    expect(tgkill(getpid(), team.tids[victim], 0) == 0, "tgkill");
    /* As if the restart had come between getpid() and tgkill(), in raise() for one. */
    expect(tgkill(team.first_pid, team.tids[victim], 0) == 0, "tgkill with an id of before a restart");
    expect(pthread_getaffinity_np(team.threads[victim], sizeof cpus, &cpus) == 0, "pthread_getaffinity_np");
    expect(pthread_setaffinity_np(team.threads[victim], sizeof cpus, &cpus) == 0, "pthread_setaffinity_np");
    expect(pthread_getcpuclockid(team.threads[victim], &clock) == 0 && clock_gettime(clock, &before) == 0 &&
               clock_gettime(clock, &after) == 0 && before.tv_sec <= after.tv_sec,
           "a thread's processor time");
}

/*
 * A thread has the mask of its creator from its first instruction on, with the C library's own signals: a
 * timer that tells threads (SIGEV_THREAD) sends one of these at once.
 */
static int note_mask(void *argument)
{
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, argument, sizeof(uint64_t));
    return 0;
}

static void step_of_masks(void)
{
    static char stack[1 << 16] __attribute__((aligned(64)));
    const uint64_t all = ~0ul, wanted = 1ul << (SIGNAL_OF_TIMERS - 1) | 1ul << (SIGUSR1 - 1);
    uint64_t before, first = 0;
    pid_t tid = 1;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    int made = clone(note_mask, stack + sizeof stack,
                     CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                         CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
                     &first, &tid, NULL, &tid);
    syscall(SYS_tgkill, getpid(), made, SIGNAL_OF_TIMERS); /* has no handler; it may be gone by now */
    for (pid_t now; made > 0 && (now = __atomic_load_n(&tid, __ATOMIC_SEQ_CST));)
        syscall(SYS_futex, &tid, FUTEX_WAIT, now, NULL, NULL, 0);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    expect(made > 0, "clone");
    expect((first & wanted) == wanted, "a thread begins with another mask than its creator's");
}

/* A handler runs in the thread that it is for. */
static volatile pthread_t receiver;

static void note_receiver(int signal)
{
    (void)signal;
    receiver = pthread_self();
}

/* The main thread's id is the process's, and threads are found below /proc by theirs. */
static void step_of_ids(long step)
{
    char wanted[16], name[16] = "", path[64];
    pthread_t other = team.threads[step % TEAM];
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2};
    expect(gettid() == getpid(), "the main thread's id is not the process's");
    receiver = 0;
    expect(tgkill(getpid(), gettid(), SIGUSR2) == 0 && receiver == pthread_self(), "tgkill of itself");
    receiver = 0;
    expect(raise(SIGUSR2) == 0 && receiver == pthread_self(), "raise");
    event._sigev_un._tid = gettid();
    expect(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_delete(timer) == 0, "timer_create");
    snprintf(wanted, sizeof wanted, "step %d", (int)(step % 100000));
    expect(pthread_setname_np(other, wanted) == 0 && pthread_getname_np(other, name, sizeof name) == 0 &&
               !strcmp(name, wanted),
           "another thread's name");
    snprintf(path, sizeof path, step % 2 ? "/proc/self/task/%d/comm" : "/proc/%d/comm",
             (int)team.tids[step % TEAM]);
    FILE *file = fopen(path, "re");
    expect(file && fscanf(file, "step%15s", name) == 1, "a thread below /proc");
    fclose(file);
    expect(setpriority(PRIO_PROCESS, (id_t)gettid(), getpriority(PRIO_PROCESS, (id_t)gettid())) == 0,
           "a priority");
}

static void end_team(void)
{
    team.is_over = 1;
    pthread_barrier_wait(&team.barrier);
    for (int i = 0; i < TEAM; i++)
        pthread_join(team.threads[i], NULL);
    digest_add_number(&program.digest, (uint64_t)team.sum);
}

/* ---- mutexes that know their owner ---- */

static pthread_mutex_t recursive, checking, robust;

static void make_mutex(pthread_mutex_t *mutex, int type, int robustness)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, type);
    pthread_mutexattr_setrobust(&attributes, robustness);
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static void *die_with_mutex(void *argument)
{
    expect(pthread_mutex_lock(&robust) == 0, "the robust mutex");
    if (argument)
        nap(3);
    return NULL;
}

/* Held across steps, so that lines and restarts find it held. */
static void step_of_mutexes(long step)
{
    pthread_t thread;
    if (step % 7 == 1)
        expect(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&checking) == 0, "locking");
    expect(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0, "locking again");
    expect(pthread_mutex_lock(&checking) == EDEADLK, "a deadlock is not noticed");
    if (step % 7 == 0) {
        expect(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&checking) == 0, "unlocking");
        expect(pthread_mutex_unlock(&checking) == EPERM, "unlocking what is not locked");
    }
    expect(pthread_create(&thread, NULL, die_with_mutex, step % 2 ? &robust : NULL) == 0, "no thread");
    if (step % 3 == 0)
        pthread_join(thread, NULL);
    int code = pthread_mutex_lock(&robust);
    if (code == 0) { /* before the thread had it */
        pthread_mutex_unlock(&robust);
        if (step % 3 != 0)
            pthread_join(thread, NULL);
        code = pthread_mutex_lock(&robust);
    } else if (step % 3 != 0) {
        pthread_join(thread, NULL);
    }
    expect(code == EOWNERDEAD, "the death of a robust mutex's owner is not noticed");
    expect(pthread_mutex_consistent(&robust) == 0 && pthread_mutex_unlock(&robust) == 0, "the robust mutex");
}

/* ---- threads that come and go ---- */

static atomic_int cleanups;

static void clean_up(void *argument)
{
    (void)argument;
    cleanups++;
}

static void *wait_for_cancellation(void *argument)
{
    sem_t *never = argument;
    pthread_cleanup_push(clean_up, NULL);
    if (never)
        sem_wait(never);
    else
        for (;;)
            nap(500);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *cancel_at_once(void *argument)
{
    volatile uint64_t *count = argument;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    while (*count < UINT64_MAX)
        ++*count;
    return NULL;
}

static void step_of_cancellation(long step)
{
    pthread_t threads[3];
    sem_t never;
    uint64_t count = 0;
    int before = cleanups;
    sem_init(&never, 0, 0);
    pthread_create(&threads[0], NULL, wait_for_cancellation, &never);
    pthread_create(&threads[1], NULL, wait_for_cancellation, NULL);
    pthread_create(&threads[2], NULL, cancel_at_once, (void *)&count);
    if (step % 2)
        nap(2);
    for (int i = 0; i < 3; i++) {
        void *result = NULL;
        pthread_cancel(threads[i]);
        pthread_join(threads[i], &result);
        expect(result == PTHREAD_CANCELED, "a thread was not cancelled");
    }
    expect(step % 2 == 0 || cleanups == before + 2, "a handler of cancellation was not called");
    sem_destroy(&never);
}

static once_flag once = ONCE_FLAG_INIT;
static mtx_t c11_lock;
static cnd_t c11_changed;
static long c11_done, c11_wanted;
static thread_local long c11_own;

static void make_c11(void)
{
    mtx_init(&c11_lock, mtx_plain | mtx_recursive);
    cnd_init(&c11_changed);
}

static int work_in_c11(void *argument)
{
    call_once(&once, make_c11);
    c11_own = (long)argument;
    mtx_lock(&c11_lock);
    c11_done++;
    cnd_signal(&c11_changed);
    mtx_unlock(&c11_lock);
    return (int)(c11_own & 0x7f);
}

static void step_of_c11(long step)
{
    thrd_t threads[2];
    int results[2];
    call_once(&once, make_c11);
    c11_wanted += 2;
    for (int i = 0; i < 2; i++)
        expect(thrd_create(&threads[i], work_in_c11, (void *)(step + i)) == thrd_success, "no thread");
    mtx_lock(&c11_lock);
    while (c11_done < c11_wanted)
        cnd_wait(&c11_changed, &c11_lock);
    mtx_unlock(&c11_lock);
    for (int i = 0; i < 2; i++)
        expect(thrd_join(threads[i], &results[i]) == thrd_success && results[i] == (int)((step + i) & 0x7f),
               "a thread's result");
}

/* ---- what a thread has from the one that makes it ---- */

static void *tell_rounding(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)fegetround();
}

static void step_of_rounding(long step)
{
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    pthread_t thread;
    void *mode;
    fesetround(modes[step % 4]);
    expect(pthread_create(&thread, NULL, tell_rounding, NULL) == 0, "no thread");
    pthread_join(thread, &mode);
    expect((intptr_t)mode == modes[step % 4], "how a new thread rounds");
    fesetround(FE_TONEAREST);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    program_begin(&program, "threads_sync", argc, argv);
    signal(SIGUSR1, count_signal);
    signal(SIGUSR2, note_receiver);
    make_mutex(&recursive, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED);
    make_mutex(&checking, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED);
    make_mutex(&robust, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST);
    start_team();
    for (long step = 1; step <= program.steps; step++) {
        uint64_t mine = mix_number((uint64_t)program.rank, (uint64_t)step, 4), all;
        step_of_team(step);
        step_of_ids(step);
        step_of_masks();
        step_of_mutexes(step);
        step_of_cancellation(step);
        step_of_c11(step);
        step_of_rounding(step);
        MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        digest_add_number(&program.digest, all);
        program_step(&program, step);
    }
    end_team();
    program_end(&program);
    MPI_Finalize();
    return 0;
}
