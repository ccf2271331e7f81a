/*
 * process_state - what a process inherits, as it finds it at its start and at its end: limits, settings of
 * prctl, masks, dispositions, pending signals, an alarm, scheduling, what /proc/self tells of its layout.
 * Rank 0 tells.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

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

/* Is an address in a mapping that the kernel calls so? */
static int is_called(uint64_t address, const char *name)
{
    char line[512];
    uint64_t start, end;
    int is_found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && address >= start && address < end)
            is_found = strstr(line, name) != NULL;
    if (maps)
        fclose(maps);
    return is_found;
}

/* The vector that the program was given, and the one that /proc/self/auxv shows. */
static void tell_layout(void)
{
    static const unsigned long types[] = {AT_PHDR,   AT_PHNUM,  AT_ENTRY,   AT_BASE,
                                          AT_RANDOM, AT_EXECFN, AT_PLATFORM};
    Elf64_auxv_t shown[64] = {{0, {0}}};
    int fd = open("/proc/self/auxv", O_RDONLY), differ = 0;
    ssize_t bytes = read(fd, shown, sizeof shown);
    close(fd);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        for (size_t k = 0; k < (size_t)bytes / sizeof shown[0]; k++)
            differ += shown[k].a_type == types[i] && shown[k].a_un.a_val != getauxval(types[i]);
    printf("auxv: %d differ, executed as %s, stack %d, program %d\n", differ,
           (const char *)getauxval(AT_EXECFN), is_called((uint64_t)&differ, "[stack]"),
           is_called(getauxval(AT_ENTRY), "process_state"));
}

/* What is pending: it is taken, and sent again. */
static void tell_pending(void)
{
    const struct timespec now = {0, 0};
    sigset_t all;
    siginfo_t info[8];
    int count = 0;
    struct itimerval alarm_time;
    sigfillset(&all);
    while (count < 8 && sigtimedwait(&all, &info[count], &now) > 0)
        printf("pending %d, value %d\n", info[count].si_signo, info[count].si_value.sival_int), count++;
    for (int i = 0; i < count; i++)
        sigqueue(getpid(), info[i].si_signo, info[i].si_value);
    getitimer(ITIMER_REAL, &alarm_time);
    printf("alarm %s\n", alarm_time.it_value.tv_sec > 3000 ? "in an hour" : "never");
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
    tell_layout();
    tell_pending();
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
