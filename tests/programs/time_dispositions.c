/*
 * time_dispositions - signal actions with all flags, masks with all signals, alternate stacks and jumps,
 * through lines and restarts; what children inherit of them. Rank 0 tells what it sees, other than pass or
 * fail.
 *
 * What is set in one step is looked at in a later one, so that a line or a restart comes in between.
 */
#define _GNU_SOURCE
#include "tests/programs/dispositions.h"

#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define UNSUPPORTED 0x400   /* SA_UNSUPPORTED: never known to a kernel, which a program finds out by it */
#define RESTORER 0x04000000 /* the C library's own */

struct program program = {.steps = 200};

void expect(int is_true, const char *what)
{
    if (!is_true)
        fail(&program, "%s (errno %d)", what, errno);
}

static uint64_t as_bits(const sigset_t *set)
{
    uint64_t bits = 0;
    for (int number = 1; number <= SIGRTMAX; number++)
        bits |= (uint64_t)(sigismember(set, number) == 1) << (number - 1);
    return bits;
}

uint64_t mask_now(void)
{
    sigset_t set;
    sigemptyset(&set);
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    return as_bits(&set);
}

sigset_t only(int number)
{
    sigset_t set;
    sigemptyset(&set);
    if (number)
        sigaddset(&set, number);
    return set;
}

void set_handler(int number, void (*handler)(int, siginfo_t *, void *), int flags, int blocked)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    action.sa_mask = only(blocked);
    expect(sigaction(number, &action, NULL) == 0, "sigaction");
}

static struct sigaction action_of(int number)
{
    struct sigaction action;
    expect(sigaction(number, NULL, &action) == 0, "sigaction");
    return action;
}

/* What the kernel knows: the bits behind such a word in the process's status. */
static uint64_t status_bits(const char *word)
{
    char line[256];
    uint64_t bits = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, word, strlen(word)))
            bits = strtoull(line + strlen(word) + 1, NULL, 16);
    if (file)
        fclose(file);
    return bits;
}

/* ---- flags of actions ---- */

static atomic_int once_called, depth, deepest, nested_calls;
static uint64_t mask_inside, mask_before;
static void *stack_inside;
char alternate[ALTERNATE_BYTES];

void on_once(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    once_called++;
}

static void on_nested(int number, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    if (++depth > deepest)
        deepest = (int)depth;
    if (nested_calls++ == 0)
        raise(number);
    depth--;
}

static void on_looking(int number, siginfo_t *info, void *context)
{
    const ucontext_t *frame = context;
    (void)number, (void)info;
    mask_inside = mask_now();
    mask_before = as_bits(&frame->uc_sigmask);
    stack_inside = frame->uc_stack.ss_sp;
}

/* Called once, and forgotten, before and after a line. */
static void check_once(long step)
{
    if (step % CYCLE == 1)
        set_handler(SIGUSR1, on_once, SA_RESETHAND | SA_RESTART, 0);
    if (step % CYCLE == CYCLE / 2) {
        once_called = 0;
        expect(action_of(SIGUSR1).sa_sigaction == on_once, "a handler is gone");
        raise(SIGUSR1);
        expect(once_called == 1, "a handler was not called");
    }
    if (step % CYCLE >= CYCLE / 2) {
        expect(action_of(SIGUSR1).sa_handler == SIG_DFL, "a handler with SA_RESETHAND is still there");
        expect(!(status_bits("SigCgt:") & 1ul << (SIGUSR1 - 1)), "the kernel has it still");
    }
}

static void check_nesting(int flags, int wanted)
{
    deepest = nested_calls = 0;
    set_handler(SIGUSR2, on_nested, flags, 0);
    raise(SIGUSR2);
    expect(nested_calls == 2 && deepest == wanted, "how often a handler interrupts itself");
}

static void check_flags(long step)
{
    static const int flags[] = {SA_NOCLDSTOP, SA_NOCLDWAIT, SA_ONSTACK,  SA_RESTART,
                                SA_NODEFER,   SA_RESETHAND, UNSUPPORTED, 0x800 /* SA_EXPOSE_TAGBITS */};
    static const int count = sizeof flags / sizeof flags[0];
    int number = SIGRTMIN + 8;
    if (step % CYCLE == 0) {
        for (int i = 0; i < count; i++, number++)
            set_handler(number, on_looking, flags[i], SIGKILL);
        return;
    }
    for (int i = 0; i < count && step > CYCLE; i++, number++) {
        struct sigaction action = action_of(number);
        int known = flags[i] == UNSUPPORTED ? 0 : flags[i];
        expect((action.sa_flags & ~RESTORER) == (SA_SIGINFO | known), "the flags of an action");
        expect(as_bits(&action.sa_mask) == 0, "the mask of an action");
    }
}

/* A handler that is entered at the end of a sleep of 60 ms, in which there is a line, sees it all as ever. */
static void check_frame(void)
{
    stack_t stack = {.ss_sp = alternate, .ss_size = ALTERNATE_BYTES}, none = {.ss_flags = SS_DISABLE};
    sigset_t set = only(SIGHUP), empty = only(0);
    struct timespec second = {1, 0};
    struct itimerval soon = {{0, 0}, {0, 60000}};
    set_handler(SIGALRM, on_looking, SA_ONSTACK, SIGTERM);
    sigaltstack(&stack, NULL);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    expect(nanosleep(&second, NULL) == -1 && errno == EINTR, "a sleep was not interrupted");
    expect(mask_before == as_bits(&set) && mask_now() == mask_before, "the mask outside a handler");
    expect(mask_inside == (mask_before | 1ul << (SIGALRM - 1) | 1ul << (SIGTERM - 1)),
           "the mask in a handler");
    expect(stack_inside == alternate, "the alternate stack in a handler's frame");
    pthread_sigmask(SIG_SETMASK, &empty, NULL);
    sigaltstack(&none, NULL);
}

/* ---- sets with all signals ---- */

static struct {
    pthread_t threads[4];
    pthread_barrier_t barrier;
    int is_over;
} waiters;

static int receive_by_wait(const sigset_t *all, int fd)
{
    (void)fd;
    return sigwaitinfo(all, NULL);
}

static int receive_in_time(const sigset_t *all, int fd)
{
    struct timespec time = {60, 0};
    (void)fd;
    return sigtimedwait(all, NULL, &time);
}

static int receive_by_read(const sigset_t *all, int fd)
{
    struct signalfd_siginfo info;
    (void)all;
    return read(fd, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : -1;
}

static int receive_by_poll(const sigset_t *all, int fd)
{
    struct pollfd ready = {fd, POLLIN, 0};
    sigset_t really_all;
    sigfillset(&really_all);
    return ppoll(&ready, 1, NULL, &really_all) == 1 ? receive_by_read(all, fd) : -1;
}

static int (*const receivers[])(const sigset_t *, int) = {receive_by_wait, receive_in_time, receive_by_read,
                                                          receive_by_poll};

static void *receive(void *argument)
{
    int (*receiver)(const sigset_t *, int) = *(int (*const *)(const sigset_t *, int))argument;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    sigdelset(&all, SIGALRM); /* these are for the main thread */
    sigdelset(&all, SIGCHLD);
    sigdelset(&all, SIGRTMIN + 1);
    int fd = signalfd(-1, &all, SFD_CLOEXEC);
    for (;;) {
        pthread_barrier_wait(&waiters.barrier);
        if (waiters.is_over)
            return NULL;
        expect(receiver(&all, fd) == SIGRTMIN + 3, "another signal came");
        pthread_barrier_wait(&waiters.barrier);
    }
}

static void start_waiters(void)
{
    pthread_barrier_init(&waiters.barrier, NULL, 5);
    for (int i = 0; i < 4; i++)
        pthread_create(&waiters.threads[i], NULL, receive, (void *)(uintptr_t)&receivers[i]);
}

/* All wait for a step's time. */
static void release_waiters(long step)
{
    if (step > 1) {
        for (int i = 0; i < 4; i++)
            expect(!pthread_kill(waiters.threads[i], SIGRTMIN + 3), "pthread_kill");
        pthread_barrier_wait(&waiters.barrier);
    }
    waiters.is_over = step == program.steps;
    pthread_barrier_wait(&waiters.barrier);
}

static void end_waiters(void)
{
    for (int i = 0; i < 4; i++)
        pthread_join(waiters.threads[i], NULL);
}

/* ---- what is set for all signals ---- */

static void ignore_all(void)
{
    struct sigaction before[65];
    sigset_t all, now;
    for (int number = 1; number <= 64; number++) {
        struct sigaction ignore = {.sa_handler = SIG_IGN};
        int is_known = sigaction(number, NULL, &before[number]) == 0;
        int may_be = number != SIGKILL && number != SIGSTOP && number != 32 && number != 33;
        expect(is_known == (number != 32 && number != 33), "sigaction of some signal");
        expect((sigaction(number, &ignore, NULL) == 0) == may_be, "some signal cannot be ignored, or can");
        expect(!may_be || action_of(number).sa_handler == SIG_IGN, "some signal is not ignored");
    }
    for (int number = 1; number <= 64; number++)
        if (number != 32 && number != 33)
            sigaction(number, &before[number], NULL);
    sigfillset(&all);
    sigemptyset(&now);
    pthread_sigmask(SIG_BLOCK, &all, &now);
    expect(as_bits(&now) == 0, "signals are blocked");
    expect(mask_now() == (as_bits(&all) & ~(1ul << (SIGKILL - 1)) & ~(1ul << (SIGSTOP - 1))),
           "the full mask");
    pthread_sigmask(SIG_UNBLOCK, &all, NULL);
    expect(mask_now() == 0, "the empty mask");
}

/* The handler goes on with another mask. */
static void on_mask(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    sigfillset(&((ucontext_t *)context)->uc_sigmask);
}

static void mask_by_frame(void)
{
    sigset_t all;
    sigfillset(&all);
    set_handler(SIGALRM, on_mask, 0, 0);
    raise(SIGALRM);
    expect(mask_now() & 1ul << (SIGUSR1 - 1), "the mask that a handler has left");
    expect(getppid() > 0 && seconds_now() > 0 && close(dup(0)) == 0, "system calls");
    pthread_sigmask(SIG_UNBLOCK, &all, NULL);
}

/* ---- signals that Belay uses itself ---- */

static volatile sig_atomic_t borrowed, borrowed_code;

static void on_borrowed(int number, siginfo_t *info, void *context)
{
    (void)context;
    borrowed += info->si_signo == number;
    borrowed_code = info->si_code;
    expect(mask_now() == (1ul << (number - 1) | 1ul << (SIGTERM - 1)), "the mask in such a handler");
}

static void check_borrowed(int number)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = number};
    struct itimerspec soon = {.it_value = {0, 60000000}};
    struct timespec second = {1, 0};
    timer_t timer;
    event._sigev_un._tid = gettid();
    borrowed = 0;
    set_handler(number, on_borrowed, 0, SIGTERM);
    pthread_sigqueue(pthread_self(), number, (union sigval){.sival_int = 1});
    expect(borrowed == 1 && borrowed_code == SI_QUEUE, "pthread_sigqueue");
    raise(number);
    expect(borrowed == 2 && borrowed_code == SI_TKILL, "raise");
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &soon, NULL);
    expect(nanosleep(&second, NULL) == -1 && errno == EINTR, "it does not interrupt");
    expect(borrowed == 3 && borrowed_code == SI_TIMER, "a timer");
    timer_delete(timer);
    signal(number, SIG_DFL);
}

/* To the process: others wait for it later. */
static void check_borrowed_kill(int number)
{
    borrowed = 0;
    set_handler(number, on_borrowed, 0, SIGTERM);
    kill(getpid(), number);
    expect(borrowed == 1 && borrowed_code == SI_USER, "kill");
    signal(number, SIG_DFL);
}

/* ---- timers ---- */

static volatile sig_atomic_t told_id;

static void on_timer(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    told_id = info->si_timerid;
}

static void check_timer_id(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1};
    struct itimerspec soon = {.it_value = {0, 1000000}};
    struct timespec second = {1, 0};
    timer_t timers[2];
    set_handler(SIGRTMIN + 1, on_timer, 0, 0);
    for (int i = 0; i < 2; i++)
        expect(timer_create(CLOCK_MONOTONIC, &event, &timers[i]) == 0, "timer_create");
    timer_delete(timers[0]);
    told_id = -1;
    timer_settime(timers[1], 0, &soon, NULL);
    while (told_id == -1)
        nanosleep(&second, NULL);
    expect(told_id == (int)(uintptr_t)timers[1], "the id of a timer in its signal");
    timer_delete(timers[1]);
}

/* ---- one after the other ---- */

static void step_of_mpi(long step)
{
    uint64_t mine = mix_number((uint64_t)program.rank, (uint64_t)step, 5), all;
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    digest_add_number(&program.digest, all);
    program_step(&program, step);
}

int main(int argc, char **argv)
{
    int provided;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL); /* MPI's own threads must not get ours */
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    pthread_sigmask(SIG_UNBLOCK, &all, NULL);
    program_begin(&program, "time_dispositions", argc, argv);
    check_borrowed_kill(SIGSYS);
    check_borrowed_kill(SIGRTMAX - 2);
    start_waiters();
    for (long step = 1; step <= program.steps; step++) {
        release_waiters(step);
        check_once(step);
        check_nesting(0, 1);
        check_nesting(SA_NODEFER, 2);
        check_flags(step);
        check_frame();
        check_small_stack();
        check_disarmed();
        jump_everywhere();
        ignore_all();
        mask_by_frame();
        check_timer_id();
        check_borrowed(step % 2 ? SIGSYS : SIGRTMAX - 2);
        check_children(step);
        step_of_mpi(step);
    }
    end_waiters();
    program_end(&program);
    MPI_Finalize();
    return 0;
}
