/*
 * jumps - handlers that jump away out of calls that the virtual kernel serves, and signals that come in the
 * midst of such calls.
 *
 * At each step a thread leaves one kind of call by siglongjmp(), and computes deep down on its stack, without
 * any system call, until the main thread has done its step: a line has to find it there. Another thread opens
 * and closes files all the time, and gets numbers by signals, all of them and in their order.
 */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define DEEP_BYTES (256ul << 10) /* far below any frame of a call */
#define NUMBERS 40               /* a step */
#define KINDS 5

static struct program program = {.steps = 40};

static void expect(int is_true, const char *what)
{
    if (!is_true)
        fail(&program, "%s", what);
}

static void set_plain_handler(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    expect(sigaction(number, &action, NULL) == 0, "sigaction");
}

static void set_handler(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    sigfillset(&action.sa_mask);
    expect(sigaction(number, &action, NULL) == 0, "sigaction");
}

/* ---- jumps ---- */

static atomic_long wanted, done; /* steps */
static atomic_int has_landed;
static sigjmp_buf landing;

static void on_jump(int number, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    siglongjmp(landing, number);
}

static void jump_out_of_raise(void)
{
    raise(SIGUSR1);
}

static void jump_out_of_kill(void)
{
    pthread_kill(pthread_self(), SIGUSR1);
}

/* A timer of this thread, while it opens, looks at the clock, maps and changes its mask. */
static void jump_out_of_anything(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    struct itimerspec soon = {.it_value = {0, 3000000}};
    static timer_t timer;
    static bool is_made;
    struct timespec now;
    event._sigev_un._tid = (int)syscall(SYS_gettid);
    if (!is_made)
        expect(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create");
    is_made = true;
    timer_settime(timer, 0, &soon, NULL);
    for (;;) {
        sigset_t none;
        sigemptyset(&none);
        clock_gettime(CLOCK_MONOTONIC, &now);
        pthread_sigmask(SIG_BLOCK, &none, NULL);
        close(-1);
        syscall(SYS_gettid);
        openat(AT_FDCWD, "/nowhere", O_RDONLY | O_CLOEXEC);
    }
}

static void jump_out_of_unblocking(void)
{
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    raise(SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void jump_out_of_queue(void)
{
    union sigval value = {0};
    pthread_sigqueue(pthread_self(), SIGUSR1, value);
}

static void (*const kinds[KINDS])(void) = {jump_out_of_raise, jump_out_of_kill, jump_out_of_anything,
                                           jump_out_of_unblocking, jump_out_of_queue};

static uint64_t compute(long step)
{
    volatile char room[DEEP_BYTES];
    uint64_t turns = 0;
    room[0] = (char)step;
    while (atomic_load(&wanted) == step)
        turns++;
    return turns * (uint64_t)(room[0] != (char)step);
}

static void *jump(void *nothing)
{
    volatile long step = 0;
    for (;;) {
        while (atomic_load(&wanted) == step)
            ;
        step = atomic_load(&wanted);
        if (step < 0)
            return nothing;
        if (sigsetjmp(landing, 1) == 0) {
            kinds[step % KINDS]();
            fail(&program, "no handler has run in call %ld", step % KINDS);
        }
        atomic_fetch_add(&has_landed, 1);
        atomic_store(&done, step);
        compute(step);
    }
}

/* ---- numbers ---- */

static atomic_int received, is_out_of_order, is_over;

static void on_number(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    if (info->si_code != SI_QUEUE || info->si_value.sival_int != received)
        is_out_of_order = 1;
    received++;
}

static void *receive(void *nothing)
{
    int file = open("/dev/null", O_WRONLY | O_CLOEXEC);
    while (!is_over) {
        close(dup(file));
        if (write(file, "x", 1) != 1)
            fail(&program, "write");
        sched_yield();
    }
    close(file);
    return nothing;
}

static void send_numbers(pthread_t to, int from)
{
    for (int i = from; i < from + NUMBERS; i++) {
        union sigval value = {.sival_int = i};
        expect(pthread_sigqueue(to, SIGRTMIN + 2, value) == 0, "pthread_sigqueue");
    }
    while (received < from + NUMBERS)
        sched_yield();
    expect(!is_out_of_order, "signals in another order, or others");
}

/* ---- what holds without a jump, too ---- */

static volatile sig_atomic_t once;

static void on_once(int number)
{
    once += number;
}

/* A handler has run when raise() returns; one that is reset runs once. */
static void check_raise(void)
{
    set_plain_handler(SIGUSR2, on_once, 0);
    once = 0;
    raise(SIGUSR2);
    set_plain_handler(SIGUSR2, on_once, SA_RESETHAND);
    raise(SIGUSR2);
    expect(once == 2 * SIGUSR2, "a handler has not run in raise()");
    struct sigaction action;
    expect(!sigaction(SIGUSR2, NULL, &action) && action.sa_handler == SIG_DFL, "a handler is not reset");
}

int main(int argc, char **argv)
{
    pthread_t jumper, receiver;
    MPI_Init(&argc, &argv);
    program_begin(&program, "jumps", argc, argv);
    set_handler(SIGUSR1, on_jump, SA_RESTART);
    set_handler(SIGRTMIN + 2, on_number, 0);
    expect(!pthread_create(&jumper, NULL, jump, NULL) && !pthread_create(&receiver, NULL, receive, NULL),
           "threads");
    for (long step = 1; step <= program.steps; step++) {
        atomic_store(&wanted, step);
        while (atomic_load(&done) != step)
            sched_yield();
        check_raise();
        send_numbers(receiver, (int)(step - 1) * NUMBERS);
        digest_add_number(&program.digest, (uint64_t)has_landed);
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&program, step);
    }
    atomic_store(&wanted, -1);
    is_over = 1;
    pthread_join(jumper, NULL);
    pthread_join(receiver, NULL);
    program_end(&program);
    MPI_Finalize();
    return 0;
}
