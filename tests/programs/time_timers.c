/*
 * time_timers - timers of every kind, set at the beginning and again in the middle: each must tell as often
 * as it was told to, and not too early.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define EARLY_S 0.012
#define PERIOD_MS 30
#define TICK_WAIT_MS 20000

static struct program program = {.steps = 300, .seconds = 2};

static void expect(int is_true, const char *what)
{
    if (!is_true)
        fail(&program, "%s", what);
}

enum kind { BY_SIGNAL, BY_SIGNAL_UNTIL, BY_THREAD, TO_THREAD, SILENT, PERIODIC, KINDS };

static struct timer {
    timer_t id;
    double due;
    atomic_int told;
} timers[KINDS];

static atomic_int real, virtual, profile, overruns;
static pthread_t receiver;
static pid_t receiver_tid;

static void on_timer(int number, siginfo_t *info, void *context)
{
    struct timer *timer = info->si_value.sival_ptr;
    (void)number, (void)context;
    timer->told++;
    if (timer == &timers[PERIODIC])
        overruns += timer_getoverrun(timer->id);
}

static void on_itimer(int number)
{
    *(number == SIGALRM ? &real : number == SIGVTALRM ? &virtual : &profile) += 1;
}

static void in_thread(union sigval value)
{
    ((struct timer *)value.sival_ptr)->told++;
}

static void *receive(void *argument)
{
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 1);
    receiver_tid = gettid();
    pthread_barrier_wait(argument);
    while (sigwaitinfo(&set, &info) > 0 && info.si_value.sival_ptr)
        ((struct timer *)info.si_value.sival_ptr)->told++;
    return NULL;
}

static void make(enum kind kind, clockid_t clock, struct sigevent event)
{
    event.sigev_value.sival_ptr = &timers[kind];
    expect(timer_create(clock, &event, &timers[kind].id) == 0, "timer_create");
}

static void make_all(void)
{
    struct sigaction action = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigaction simple = {.sa_handler = on_itimer, .sa_flags = SA_RESTART};
    struct sigevent by_signal = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 2};
    struct sigevent by_thread = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = in_thread};
    struct sigevent to_thread = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 1};
    struct sigevent silent = {.sigev_notify = SIGEV_NONE};
    to_thread._sigev_un._tid = receiver_tid;
    sigaction(SIGRTMIN + 2, &action, NULL);
    sigaction(SIGALRM, &simple, NULL);
    sigaction(SIGVTALRM, &simple, NULL);
    sigaction(SIGPROF, &simple, NULL);
    make(BY_SIGNAL, CLOCK_MONOTONIC, by_signal);
    make(BY_SIGNAL_UNTIL, CLOCK_MONOTONIC, by_signal);
    make(BY_THREAD, CLOCK_REALTIME, by_thread);
    make(TO_THREAD, CLOCK_BOOTTIME, to_thread);
    make(SILENT, CLOCK_MONOTONIC, silent);
    make(PERIODIC, CLOCK_MONOTONIC, by_signal);
}

static struct timespec timespec_of(double seconds)
{
    return (struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
}

static int ticking = -1; /* a descriptor's timer, which has run out and goes on when it is read */

static void begin_ticking(void)
{
    const struct itimerspec setting = {{0, PERIOD_MS * 1000000}, {0, PERIOD_MS * 1000000}};
    ticking = timerfd_create(CLOCK_REALTIME, 0);
    expect(ticking >= 0 && timerfd_settime(ticking, 0, &setting, NULL) == 0, "timerfd_settime");
}

/* What was missed is told by the first reading; the second one waits for more. */
static void read_ticking(void)
{
    for (int i = 0; i < 2; i++) {
        struct pollfd ready = {.fd = ticking, .events = POLLIN};
        uint64_t ticks = 0;
        while (poll(&ready, 1, TICK_WAIT_MS) < 0 && errno == EINTR) /* by the other timers' signals */
            ;
        expect(ready.revents == POLLIN && read(ticking, &ticks, sizeof ticks) == sizeof ticks && ticks > 0,
               "a descriptor's periodic timer has stopped");
    }
}

static void set_all(double seconds)
{
    struct itimerval real_time = {{0, 0}, {(time_t)seconds, 1}}, busy_time = {{0, 20000}, {0, 20000}};
    for (int kind = 0; kind < KINDS; kind++) {
        int flags = kind == BY_SIGNAL_UNTIL ? TIMER_ABSTIME : 0;
        timers[kind].due = seconds_now() + seconds;
        struct itimerspec setting = {.it_value = timespec_of(flags ? timers[kind].due : seconds)};
        if (kind == PERIODIC)
            setting = (struct itimerspec){{0, PERIOD_MS * 1000000}, {0, PERIOD_MS * 1000000}};
        expect(timer_settime(timers[kind].id, flags, &setting, NULL) == 0, "timer_settime");
    }
    setitimer(ITIMER_REAL, &real_time, NULL);
    setitimer(ITIMER_VIRTUAL, &busy_time, NULL);
    setitimer(ITIMER_PROF, &busy_time, NULL);
}

static double left(timer_t id)
{
    struct itimerspec now;
    expect(timer_gettime(id, &now) == 0, "timer_gettime");
    return (double)now.it_value.tv_sec + (double)now.it_value.tv_nsec * 1e-9;
}

/* Nobody may be told before it is due, and nobody twice. */
static void check_all(double start, double seconds, int round)
{
    int ticks = timers[PERIODIC].told + overruns;
    expect(ticks * (PERIOD_MS / 1000.0) <= seconds_now() - start + EARLY_S, "a periodic timer was early");
    for (int kind = 0; kind < SILENT; kind++) {
        int told = timers[kind].told;
        double now = seconds_now();
        expect(told >= round - 1 && told <= round && (told == round - 1 || now >= timers[kind].due - EARLY_S),
               "a timer was early");
    }
    double remaining = left(timers[SILENT].id);
    expect(remaining <= seconds && (remaining > 0 || seconds_now() >= timers[SILENT].due - EARLY_S),
           "what a timer has left");
    expect(real <= round, "the real time's timer came twice");
}

static int have_all_told(int round)
{
    int all = timers[PERIODIC].told >= 10 * round && real == round && virtual > 0 && profile > 0;
    for (int kind = 0; kind < SILENT; kind++)
        all &= timers[kind].told == round;
    return all && left(timers[SILENT].id) == 0;
}

static void tell_missing(int round)
{
    char told[KINDS * 12] = "";
    for (int kind = 0; kind < KINDS; kind++)
        sprintf(told + strlen(told), " %d", timers[kind].told);
    fail(&program, "round %d: a timer did not come; they told%s, intervals %d %d %d, left %g", round, told,
         real, virtual, profile, left(timers[SILENT].id));
}

static void one_round(int round, double start)
{
    double seconds = program.seconds / 4;
    long steps = program.steps / 2;
    if (round == 1)
        begin_ticking();
    set_all(seconds);
    for (long step = 1; step <= steps; step++) {
        uint64_t mine = (uint64_t)step, all;
        check_all(start, seconds, round);
        MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        digest_add_number(&program.digest, all);
        program_step(&program, (round - 1) * steps + step);
    }
    read_ticking();
    for (double began = seconds_now(); !have_all_told(round);) {
        check_all(start, seconds, round);
        if (seconds_now() > began + 30)
            tell_missing(round);
    }
}

int main(int argc, char **argv)
{
    pthread_barrier_t barrier;
    sigset_t blocked;
    int provided;
    sigemptyset(&blocked); /* before MPI makes threads */
    for (int i = 1; i <= 2; i++)
        sigaddset(&blocked, SIGRTMIN + i);
    sigaddset(&blocked, SIGALRM);
    sigaddset(&blocked, SIGVTALRM);
    sigaddset(&blocked, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    program_begin(&program, "time_timers", argc, argv);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&receiver, NULL, receive, &barrier);
    pthread_barrier_wait(&barrier);
    make_all();
    sigdelset(&blocked, SIGRTMIN + 1);
    pthread_sigmask(SIG_UNBLOCK, &blocked, NULL);
    double start = seconds_now();
    for (int round = 1; round <= 2; round++)
        one_round(round, start);
    for (int kind = 0; kind < KINDS; kind++)
        expect(timer_delete(timers[kind].id) == 0 || kind == BY_THREAD, "timer_delete");
    pthread_sigqueue(receiver, SIGRTMIN + 1, (union sigval){.sival_ptr = NULL});
    pthread_join(receiver, NULL);
    program_end(&program);
    MPI_Finalize();
    return 0;
}
