/*
 * process_state - what a process inherits, as it finds it at its start and at its end: limits, settings of
 * prctl, masks, dispositions, scheduling. Rank 0 tells.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/programs/program.h"

static void tell_limits(void)
{
    for (int which = 0; which < RLIMIT_NLIMITS; which++) {
        struct rlimit limit;
        getrlimit(which, &limit);
        printf("limit %d: %llx %llx\n", which, (unsigned long long)limit.rlim_cur,
               (unsigned long long)limit.rlim_max);
    }
}

static void tell_signals(void)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (int number = 1; number <= SIGRTMAX; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action))
            continue;
        if (sigismember(&mask, number) || action.sa_handler == SIG_IGN)
            printf("signal %d: blocked %d, ignored %d\n", number, sigismember(&mask, number),
                   action.sa_handler == SIG_IGN);
    }
}

static void tell(const char *when)
{
    char name[16] = "";
    mode_t mode = umask(0);
    stack_t stack;
    umask(mode);
    sigaltstack(NULL, &stack);
    prctl(PR_GET_NAME, name);
    printf("%s: name %s, dumpable %d, keepcaps %d, securebits %d, slack %d, TSC %d\n", when, name,
           prctl(PR_GET_DUMPABLE), prctl(PR_GET_KEEPCAPS), prctl(PR_GET_SECUREBITS), prctl(PR_GET_TIMERSLACK),
           prctl(PR_GET_TSC, &(int){0}));
    printf("huge pages %d, personality %x, umask %o, nice %d, policy %d, alternate stack %d\n",
           prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), personality(0xffffffff), mode, getpriority(PRIO_PROCESS, 0),
           sched_getscheduler(0), stack.ss_flags);
    printf("preload %s\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "none");
    tell_limits();
    tell_signals();
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 100};
    MPI_Init(&argc, &argv);
    program_begin(&program, "process_state", argc, argv);
    if (program.rank == 0)
        tell("start");
    for (long step = 1; step <= program.steps; step++) {
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&program, step);
    }
    if (program.rank == 0)
        tell("end");
    program_end(&program);
    MPI_Finalize();
    return 0;
}
