/* dispositions_stacks.c - see dispositions.h. */
#define _GNU_SOURCE
#include "tests/programs/dispositions.h"

#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

/* ---- a stack that has room for one handler, no more ---- */

static void on_small(int number, siginfo_t *info, void *context)
{
    double until = seconds_now() + 0.08;
    sigset_t pending;
    (void)number, (void)info, (void)context;
    while (seconds_now() < until) {
        sigpending(&pending);
        expect(!sigismember(&pending, SIGRTMAX - 2), "a signal is pending that nobody has sent");
    }
}

void check_small_stack(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)sysconf(_SC_MINSIGSTKSZ) + page / 2;
    size_t whole = (bytes + 2 * page - 1) / page * page;
    char *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = memory + whole - bytes, .ss_size = bytes}, none = {.ss_flags = SS_DISABLE};
    struct itimerval soon = {{0, 0}, {0, 1000}};
    sigset_t set = only(SIGALRM), empty = only(0);
    expect(memory != MAP_FAILED && !mprotect(memory, page, PROT_NONE) && !sigaltstack(&stack, NULL),
           "a small stack");
    set_handler(SIGALRM, on_small, SA_ONSTACK, 0);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    sigsuspend(&empty);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    sigaltstack(&none, NULL);
    munmap(memory, whole);
}

/* ---- a stack that the kernel takes away while a handler is on it ---- */

static volatile sig_atomic_t was_disarmed, was_there;

static void on_disarmed(int number, siginfo_t *info, void *context)
{
    struct timespec time = {0, 60000000};
    stack_t now;
    char *here = __builtin_frame_address(0);
    (void)number, (void)info, (void)context;
    sigaltstack(NULL, &now);
    was_disarmed = now.ss_flags & SS_DISABLE;
    was_there = here >= alternate && here < alternate + ALTERNATE_BYTES;
    nanosleep(&time, NULL);
}

void check_disarmed(void)
{
    stack_t stack = {.ss_sp = alternate, .ss_flags = (int)SS_AUTODISARM, .ss_size = ALTERNATE_BYTES};
    stack_t none = {.ss_flags = SS_DISABLE}, now;
    set_handler(SIGALRM, on_disarmed, SA_ONSTACK, 0);
    expect(sigaltstack(&stack, NULL) == 0, "sigaltstack");
    raise(SIGALRM);
    expect(was_disarmed && was_there, "a handler was not on a stack with SS_AUTODISARM");
    sigaltstack(NULL, &now);
    expect(now.ss_sp == alternate && now.ss_flags == (int)SS_AUTODISARM, "such a stack is not armed again");
    sigaltstack(&none, NULL);
}

/* ---- jumps ---- */

static sigjmp_buf jump;

static void on_jump(int number, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    siglongjmp(jump, number);
}

/* Out of whatever is interrupted, on either stack, below and above it. */
static void jump_often(int flags, volatile long calls)
{
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    volatile int jumps = 0;
    int file = open("/dev/null", O_WRONLY | O_CLOEXEC);
    set_handler(SIGALRM, on_jump, flags, 0);
    if (sigsetjmp(jump, 1) == 0)
        setitimer(ITIMER_REAL, &often, NULL);
    if (++jumps < 10)
        for (;;)
            calls += write(file, "x", 1) + (seconds_now() > 0);
    setitimer(ITIMER_REAL, &never, NULL);
    sigset_t set = only(SIGALRM);
    struct timespec now = {0, 0};
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    sigtimedwait(&set, NULL, &now);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    close(file);
}

void jump_everywhere(void)
{
    char on_stack[65536];
    stack_t below = {.ss_sp = alternate, .ss_size = ALTERNATE_BYTES}, none = {.ss_flags = SS_DISABLE};
    stack_t here = {.ss_sp = on_stack, .ss_size = sizeof on_stack};
    jump_often(0, 0);
    sigaltstack(&below, NULL);
    jump_often(SA_ONSTACK, 0);
    sigaltstack(&here, NULL);
    jump_often(SA_ONSTACK, 0);
    sigaltstack(&none, NULL);
}
