/*
 * process.c - what belongs to the process as a whole: its name, environment, clocks, rounding, numbers of the
 * C library, what /proc tells of it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/core/world.h"

#define VARIABLES 4
#define LIST_END (FIRST_NUMBER + 60) /* of the descriptors that are listed */

/* ---- set ---- */

static void act_name(void)
{
    char name[16];
    snprintf(name, sizeof name, "history-%zu", pick(1000));
    say(" %s", name);
    answer(prctl(PR_SET_NAME, name));
}

static void act_environment(void)
{
    char name[16], value[32];
    snprintf(name, sizeof name, "HISTORY_%zu", pick(VARIABLES));
    snprintf(value, sizeof value, "%llx", (unsigned long long)roll());
    say(" %s", name);
    answer(chance(70) ? setenv(name, value, 1) : unsetenv(name));
}

/* How the processor rounds, and which exceptions it has seen. */
static void act_rounding(void)
{
    int mode = (int)PICK_ONE(FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO);
    say(" %x", (unsigned)mode);
    answer(fesetround(mode));
    if (chance(50))
        feclearexcept(FE_ALL_EXCEPT);
}

static void act_locale(void)
{
    const char *name = setlocale(LC_ALL, chance(50) ? "C.UTF-8" : "C");
    say(" %s", name ? name : "none");
}

static void act_numbers(void)
{
    size_t way = pick(4);
    if (way == 0)
        srandom((unsigned)pick(1000));
    else if (way == 1)
        srand48((long)pick(1000));
    say(" %ld %ld %d", random(), lrand48(), rand());
}

static void act_nice(void)
{
    errno = 0;
    answer(nice((int)pick(2)));
}

static void act_affinity(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    if (chance(50))
        CPU_SET(1, &set);
    answer(sched_setaffinity(0, sizeof set, &set));
    sched_getaffinity(0, sizeof set, &set);
    say(" %d", CPU_COUNT(&set));
}

static void act_settings(void)
{
    answer(prctl(PR_SET_TIMERSLACK, 1000 * pick_between(1, 90)));
    answer(prctl(PR_SET_CHILD_SUBREAPER, chance(50)));
    say(" slack %d", prctl(PR_GET_TIMERSLACK));
}

/* ---- asked ---- */

static void act_proc(void)
{
    char text[200] = "";
    const char *name = (const char *[]){"comm", "cmdline", "oom_score_adj"}[pick(2)];
    char path[64];
    snprintf(path, sizeof path, "/proc/self/%s", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    say(" %s", name);
    if (!strcmp(name, "comm"))
        say_bytes(text, (size_t)bytes);
    else /* the arguments of this launch, as any other reads them: the program's name is the first */
        say(" %s", bytes > 0 && strstr(text, "history") ? "history" : "other");
}

/* The lines of /proc/self/status that are the program's own. */
static void act_status(void)
{
    char line[256];
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "Name:", 5) || !strncmp(line, "Umask:", 6) || !strncmp(line, "State:", 6))
            say(" %.*s", (int)strcspn(line + 6, "\n"), line + 6);
    if (file)
        fclose(file);
}

static int by_number(const struct dirent **a, const struct dirent **b)
{
    return atoi((*a)->d_name) - atoi((*b)->d_name);
}

static int is_listed(const struct dirent *entry)
{
    int number = atoi(entry->d_name);
    return number >= FIRST_NUMBER && number < LIST_END;
}

static void act_list(void)
{
    struct dirent **entries;
    int count = scandir("/proc/self/fd", &entries, is_listed, by_number);
    for (int i = 0; i < count; i++) {
        say(" %s", entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

static void act_exe(void)
{
    char path[PATH_MAX] = "";
    if (readlink("/proc/self/exe", path, sizeof path - 1) > 0 && strrchr(path, '/'))
        say(" %s", strrchr(path, '/') + 1);
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    answer(fd < 0 ? -1 : 0);
    close(fd);
}

/* Whom the process has known by an id, it goes on knowing. */
static void act_known(void)
{
    static pid_t known[4];
    const pid_t now[] = {getpid(), getppid(), getpgrp(), getsid(0)};
    char path[64];
    for (int i = 0; i < 4; i++) {
        known[i] = known[i] ? known[i] : now[i];
        say(" %s", now[i] == known[i] ? "same" : "another");
    }
    answer(kill(known[0], 0));
    answer(getpgid(known[0]) == known[2] ? 0 : -1);
    snprintf(path, sizeof path, "/proc/%d/stat", known[chance(50)]);
    answer(access(path, R_OK));
}

static void act_ids(void)
{
    struct utsname name;
    say(" %s", getpid() == gettid() ? "main thread" : "another thread");
    say(" %d %d %d %d", (int)getuid(), (int)geteuid(), (int)getgid(), (int)getegid());
    say(" %s", uname(&name) == 0 ? name.sysname : "?");
    say(" %ld", sysconf(_SC_PAGESIZE));
}

/* ---- clocks ---- */

/* In nanoseconds, not as a number with a point: how the processor rounds changes all the time. */
static long read_clock(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000l + time.tv_nsec;
}

static void tell_clock(long now, long *last)
{
    say(" %s", now >= *last ? "on" : "back");
    *last = now;
}

static void act_clocks(void)
{
    static const clockid_t clocks[] = {CLOCK_MONOTONIC,         CLOCK_BOOTTIME,      CLOCK_PROCESS_CPUTIME_ID,
                                       CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE};
    static long last[8];
    struct rusage usage;
    for (size_t i = 0; i < 6; i++)
        tell_clock(read_clock(clocks[i]), &last[i]);
    getrusage(RUSAGE_SELF, &usage);
    tell_clock(usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec, &last[6]);
    tell_clock((long)(MPI_Wtime() * 1e3), &last[7]);
}

static const struct operation operations[] = {
    {"name", 2, act_name},         {"environment", 3, act_environment},
    {"rounding", 3, act_rounding}, {"locale", 1, act_locale},
    {"numbers", 4, act_numbers},   {"nice", 1, act_nice},
    {"affinity", 1, act_affinity}, {"settings", 1, act_settings},
    {"proc", 2, act_proc},         {"list", 2, act_list},
    {"status", 1, act_status},     {"exe", 1, act_exe},
    {"ids", 2, act_ids},           {"known", 2, act_known},
    {"clocks", 3, act_clocks},     {NULL, 0, NULL},
};

static void observe(void)
{
    char name[16] = "";
    volatile double third = 1.0, number = 3.0;
    volatile long double long_third = 1.0L;
    for (int i = 0; i < VARIABLES; i++) {
        char variable[16];
        snprintf(variable, sizeof variable, "HISTORY_%d", i);
        const char *value = getenv(variable);
        note("%s is %s", variable, value ? value : "not set");
    }
    prctl(PR_GET_NAME, name);
    third /= number;
    long_third /= number;
    note("name %s, rounding %x, a third %a %La", name, (unsigned)fegetround(), third, long_third);
    note("locale %s", setlocale(LC_ALL, NULL));
}

const struct kind kind_process = {"process", operations, .observe = observe};
