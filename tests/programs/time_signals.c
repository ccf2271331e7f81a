/*
 * time_signals - signals: what is pending, masks, the alternate stack, handlers that end waits or restart
 * calls.
 *
 *     --mode pending     (default) signals that stay blocked for many steps, for the process and for a thread
 *     --mode handlers    an interval timer whose handler interrupts everything, and also leaves by a jump
 */
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define CYCLE 40 /* steps from sending to receiving */
#define VALUES 3

static struct program program = {.steps = 300};

static void expect(int is_true, const char *what)
{
    if (!is_true)
        fail(&program, "%s", what);
}

static void step_of_mpi(long step)
{
    uint64_t mine = mix_number((uint64_t)program.rank, (uint64_t)step, 5), all;
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    digest_add_number(&program.digest, all);
    program_step(&program, step);
}

/* ---- pending ---- */

static struct {
    pthread_barrier_t barrier;
    pthread_t thread;
    int is_over;
} helper;

/* Take one pending signal, which must be this one. */
static siginfo_t take(int number, int code)
{
    static const struct timespec now;
    siginfo_t info;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    expect(sigtimedwait(&set, &info, &now) == number, "a pending signal is gone");
    expect(info.si_code == code && info.si_pid == getpid(), "a signal's origin");
    return info;
}

static void *receive_own(void *argument)
{
    for (;;) {
        pthread_barrier_wait(&helper.barrier);
        if (helper.is_over)
            return argument;
        for (int i = 0; i < VALUES; i++)
            expect(take(SIGRTMIN + 2, SI_QUEUE).si_value.sival_int == 20 + i,
                   "the order of a thread's signals");
        take(SIGUSR2, SI_USER);
        pthread_barrier_wait(&helper.barrier);
    }
}

static void send_all(void)
{
    for (int i = 0; i < VALUES; i++) {
        sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 10 + i});
        pthread_sigqueue(helper.thread, SIGRTMIN + 2, (union sigval){.sival_int = 20 + i});
        sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 30 + i});
    }
    kill(getpid(), SIGUSR1);
    pthread_kill(pthread_self(), SIGUSR2);
    pthread_kill(helper.thread, SIGUSR2);
}

static void receive_all(int signals)
{
    sigset_t pending;
    sigpending(&pending);
    expect(sigismember(&pending, SIGUSR1) && sigismember(&pending, SIGUSR2), "sigpending");
    for (int i = 0; i < VALUES; i++) {
        struct signalfd_siginfo info = {0};
        expect(take(SIGRTMIN + 1, SI_QUEUE).si_value.sival_int == 10 + i,
               "the order of the process's signals");
        expect(read(signals, &info, sizeof info) == sizeof info && info.ssi_int == 30 + i, "signalfd");
    }
    take(SIGUSR1, SI_USER);
    take(SIGUSR2, SI_USER);
    pthread_barrier_wait(&helper.barrier);
    pthread_barrier_wait(&helper.barrier);
    sigpending(&pending);
    expect(sigisemptyset(&pending), "a signal came twice");
}

static char stack[65536];
static volatile sig_atomic_t was_on_stack;

static void look_at_stack(int number)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), bottom = (uintptr_t)stack;
    (void)number;
    was_on_stack = here >= bottom && here < bottom + sizeof stack;
}

static int is_same(const sigset_t *a, const sigset_t *b)
{
    int differences = 0;
    for (int number = 1; number <= SIGRTMAX; number++)
        differences += sigismember(a, number) != sigismember(b, number);
    return !differences;
}

static void check_state(const sigset_t *mask)
{
    stack_t now;
    sigset_t current;
    sigemptyset(&current);
    sigaltstack(NULL, &now);
    expect(now.ss_sp == stack && now.ss_size == sizeof stack && now.ss_flags == 0, "the alternate stack");
    was_on_stack = 0;
    raise(SIGWINCH);
    expect(was_on_stack, "a handler was not on the alternate stack");
    pthread_sigmask(SIG_BLOCK, NULL, &current);
    expect(is_same(&current, mask), "the mask of signals");
}

/* Before MPI makes threads, which would not survive such a signal. */
static void block_all_used(void)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    for (int i = 1; i <= VALUES; i++)
        sigaddset(&blocked, SIGRTMIN + i);
    sigaddset(&blocked, SIGUSR1);
    sigaddset(&blocked, SIGUSR2);
    sigaddset(&blocked, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
}

static void pending(void)
{
    struct sigaction action = {.sa_handler = look_at_stack, .sa_flags = SA_ONSTACK | SA_RESTART};
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigset_t blocked, fd_set;
    sigemptyset(&blocked);
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    sigaltstack(&alternate, NULL);
    sigaction(SIGWINCH, &action, NULL);
    sigemptyset(&fd_set);
    sigaddset(&fd_set, SIGRTMIN + 3);
    int signals = signalfd(-1, &fd_set, SFD_CLOEXEC | SFD_NONBLOCK);
    pthread_barrier_init(&helper.barrier, NULL, 2);
    pthread_create(&helper.thread, NULL, receive_own, NULL);
    for (long step = 1; step <= program.steps; step++) {
        if (step % CYCLE == 1)
            send_all();
        check_state(&blocked);
        step_of_mpi(step);
        if (step % CYCLE == 0)
            receive_all(signals);
    }
    helper.is_over = 1;
    pthread_barrier_wait(&helper.barrier);
    pthread_join(helper.thread, NULL);
    close(signals);
}

/* ---- handlers ---- */

static atomic_long alarms;
static volatile sig_atomic_t may_jump;
static sigjmp_buf jump;

static void on_alarm(int number)
{
    alarms++;
    if (may_jump) {
        may_jump = 0;
        siglongjmp(jump, number);
    }
}

static int pipe_ends[2];

static void *write_later(void *argument)
{
    struct timespec time = {0, 25000000};
    nanosleep(&time, NULL);
    expect(write(pipe_ends[1], "x", 1) == 1, "write");
    return argument;
}

/* Waits that the handler must end. */
static void interrupted_waits(const sigset_t *none)
{
    struct timespec time = {60, 0}, left = {0, 0};
    long before = alarms;
    pause();
    expect(alarms > before, "pause returned without a handler");
    before = alarms;
    expect(nanosleep(&time, &left) == -1 && errno == EINTR && alarms > before,
           "nanosleep was not interrupted");
    expect(left.tv_sec >= 1 && left.tv_sec <= 60, "what nanosleep says is left");
    before = alarms;
    expect(poll(NULL, 0, 60000) == -1 && errno == EINTR && alarms > before, "poll was not interrupted");
    before = alarms;
    expect(sigsuspend(none) == -1 && errno == EINTR && alarms > before, "sigsuspend");
}

/* A call that the kernel restarts. */
static void restarted_call(void)
{
    pthread_t thread;
    char byte = 0;
    pthread_create(&thread, NULL, write_later, NULL);
    expect(read(pipe_ends[0], &byte, 1) == 1 && byte == 'x', "read was not restarted");
    pthread_join(thread, NULL);
}

static void leave_by_jump(void)
{
    if (sigsetjmp(jump, 1) == 0) {
        may_jump = 1;
        for (;;)
            seconds_now();
    }
}

static void handlers(void)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 7000}, {0, 7000}};
    sigset_t alarm_only, none;
    sigemptyset(&none);
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    expect(pipe(pipe_ends) == 0, "pipe");
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
    for (long step = 1; step <= program.steps; step++) {
        interrupted_waits(&none);
        leave_by_jump();
        pthread_sigmask(SIG_BLOCK, &alarm_only, NULL); /* threads do not get it */
        restarted_call();
        pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
        step_of_mpi(step);
    }
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
}

int main(int argc, char **argv)
{
    int provided;
    block_all_used();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    program_begin(&program, "time_signals", argc, argv);
    if (!strcmp(program.mode, "handlers"))
        handlers();
    else
        pending();
    program_end(&program);
    MPI_Finalize();
    return 0;
}
