/*
 * process_settings - what a process and its threads set for themselves with the kernel. Everything is set
 * once, and looked at in each step, by the main thread and by another one.
 *
 * --mode hidden: only that nobody may read the process's memory.
 * --mode refused: calls that are refused; rank 0 tells how.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/membarrier.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define ARCH_GET_XCOMP_PERM 0x1022
#define ARCH_REQ_XCOMP_PERM 0x1023
#define TILES 18 /* AMX */
#define IDLE_CLASS (3 << 13)
#define BEST_EFFORT (2 << 13 | 5)
#define POLICY_LOCAL 4
#define USER 65534u
#define GROUP 4711u

struct thread_settings {
    int slack_ns, niceness, policy, death_signal, io_priority;
    bool is_bound; /* to one processor */
};

static const struct thread_settings main_settings = {123456, 3, SCHED_OTHER, SIGTERM, BEST_EFFORT, false},
                                    other_settings = {654321, 5, SCHED_BATCH, SIGHUP, IDLE_CLASS, true};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long asked, answered;
static int wrong; /* line of a check that failed */
static bool has_tiles, is_root;

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition) && !wrong)                                                                          \
            wrong = __LINE__;                                                                                \
    } while (0)

static void set_thread(const struct thread_settings *settings)
{
    const struct sched_param none = {0};
    cpu_set_t processors;
    CHECK(prctl(PR_SET_TIMERSLACK, settings->slack_ns) == 0);
    CHECK(prctl(PR_SET_PDEATHSIG, settings->death_signal) == 0);
    CHECK(sched_setscheduler(0, settings->policy, &none) == 0);
    CHECK(setpriority(PRIO_PROCESS, 0, settings->niceness) == 0);
    CHECK(syscall(SYS_ioprio_set, 1, 0, settings->io_priority) == 0);
    CHECK(sched_getaffinity(0, sizeof processors, &processors) == 0);
    for (int i = 0, found = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &processors) && found++)
            CPU_CLR(i, &processors);
    if (settings->is_bound)
        CHECK(sched_setaffinity(0, sizeof processors, &processors) == 0);
}

static void check_thread(const struct thread_settings *settings)
{
    int death_signal = 0;
    cpu_set_t processors;
    CHECK(prctl(PR_GET_TIMERSLACK) == settings->slack_ns);
    CHECK(prctl(PR_GET_PDEATHSIG, &death_signal) == 0 && death_signal == settings->death_signal);
    CHECK(sched_getscheduler(0) == settings->policy);
    CHECK(getpriority(PRIO_PROCESS, 0) == settings->niceness);
    CHECK(syscall(SYS_ioprio_get, 1, 0) == settings->io_priority);
    CHECK(sched_getaffinity(0, sizeof processors, &processors) == 0);
    CHECK(!settings->is_bound || CPU_COUNT(&processors) == 1);
}

static void *be_other(void *nothing)
{
    pthread_mutex_lock(&lock);
    set_thread(&other_settings);
    for (;;) {
        while (answered == asked)
            pthread_cond_wait(&changed, &lock);
        check_thread(&other_settings);
        answered = asked;
        pthread_cond_broadcast(&changed);
    }
    return nothing;
}

static void write_number(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static long read_number(const char *path, int base)
{
    char text[32] = "";
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    close(fd);
    return strtol(text, NULL, base);
}

/* Another effective user only, so that what belongs to root can be put away at the end. */
static void become_user(void)
{
    const gid_t groups[] = {GROUP, GROUP + 1};
    CHECK(setgroups(2, groups) == 0 && setresgid(USER, USER, 0) == 0);
    CHECK(prctl(PR_SET_KEEPCAPS, 1) == 0);
    CHECK(setresuid(0, USER, 0) == 0);
}

static void set_process(void)
{
    CHECK(personality(ADDR_NO_RANDOMIZE) >= 0);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
    write_number("/proc/self/coredump_filter", "0x21");
    write_number("/proc/self/oom_score_adj", "321");
    CHECK(setpgid(0, 0) == 0);
    CHECK(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0);
    CHECK(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) == 0);
    CHECK(syscall(SYS_set_mempolicy, POLICY_LOCAL, NULL, 0) == 0 || errno == ENOSYS);
    has_tiles = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILES) == 0;
    is_root = geteuid() == 0;
    if (is_root)
        become_user();
    CHECK(prctl(PR_SET_DUMPABLE, is_root ? 0 : 1) == 0);
}

static void check_user(void)
{
    uid_t real, effective, saved;
    gid_t groups[4];
    CHECK(getresuid(&real, &effective, &saved) == 0 && real == 0 && effective == USER && saved == 0);
    CHECK(getresgid(&real, &effective, &saved) == 0 && real == USER && effective == USER && saved == 0);
    CHECK(getgroups(4, groups) == 2 && groups[0] == GROUP && groups[1] == GROUP + 1);
    CHECK(prctl(PR_GET_KEEPCAPS) == 1);
}

static void check_process(void)
{
    int value = 0;
    unsigned long bits = 0;
    CHECK(personality(0xffffffff) == ADDR_NO_RANDOMIZE);
    CHECK(prctl(PR_GET_CHILD_SUBREAPER, &value) == 0 && value == 1);
    CHECK(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1);
    CHECK(read_number("/proc/self/coredump_filter", 16) == 0x21);
    CHECK(read_number("/proc/self/oom_score_adj", 10) == 321);
    CHECK(getpgrp() == getpid());
    CHECK(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0);
    CHECK(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) == 0);
    CHECK(syscall(SYS_get_mempolicy, &value, NULL, 0, NULL, 0) < 0 || value == POLICY_LOCAL);
    CHECK(syscall(SYS_arch_prctl, ARCH_GET_XCOMP_PERM, &bits) < 0 || !has_tiles || (bits >> TILES & 1));
    CHECK(prctl(PR_GET_DUMPABLE) == (is_root ? 0 : 1));
    if (is_root)
        check_user();
}

static void ask_other(long step)
{
    pthread_mutex_lock(&lock);
    asked = step;
    pthread_cond_broadcast(&changed);
    while (answered != asked)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void try(const char *what, long result)
{
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : "done");
}

/* Once by the child's own wish, once by ours: it runs the same program. */
static void try_tracing(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) ? errno : 0);
    waitpid(child, &status, 0);
    errno = WEXITSTATUS(status);
    try("traceme", errno ? -1 : 0);
    child = fork();
    if (child == 0)
        for (;;)
            pause();
    try("attach", ptrace(PTRACE_ATTACH, child, NULL, NULL));
    try("seize", ptrace(PTRACE_SEIZE, child, NULL, NULL));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
}

/* Another program makes its calls itself. */
static void trace_another(void)
{
    int status = 0, ends[2];
    char byte;
    pid_t child = pipe(ends) ? -1 : fork();
    if (child == 0) {
        dup2(ends[1], 1);
        execl("/bin/sh", "sh", "-c", "echo; exec sleep 100", NULL);
        _exit(1);
    }
    close(ends[1]);
    if (read(ends[0], &byte, 1) != 1) /* it runs now */
        errno = ECHILD;
    close(ends[0]);
    try("another", ptrace(PTRACE_SEIZE, child, NULL, NULL));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
}

static void try_refused(void)
{
    unsigned long context = 0;
    try("seccomp", prctl(PR_SET_SECCOMP, 1));
    try("another seccomp", syscall(SYS_seccomp, 1, 0, NULL));
    try("landlock", syscall(446 /* landlock_restrict_self */, -1, 0));
    try("chroot", chroot("/tmp"));
    try("unshare", unshare(CLONE_NEWNS));
    try("key", syscall(SYS_pkey_alloc, 0, 0));
    try("aio", syscall(SYS_io_setup, 1, &context));
    try("uring", syscall(SYS_io_uring_setup, 1, NULL));
    try_tracing();
    trace_another();
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 20};
    pthread_t thread;
    bool is_hidden = argc > 2 && !strcmp(argv[2], "hidden");
    if (is_hidden)
        prctl(PR_SET_DUMPABLE, 0);
    MPI_Init(&argc, &argv);
    program_begin(&program, "process_settings", argc, argv);
    if (strcmp(program.mode, "refused") == 0) {
        if (program.rank == 0)
            try_refused();
        program.steps = 0;
    } else if (!is_hidden) {
        set_process(); /* first: with the user, signals at a parent's death are forgotten */
        if (pthread_create(&thread, NULL, be_other, NULL))
            fail(&program, "no thread");
        ask_other(-1); /* it has set its own */
        set_thread(&main_settings);
    }
    for (long step = 1; step <= program.steps; step++) {
        if (!is_hidden) {
            check_process();
            check_thread(&main_settings);
            ask_other(step);
        }
        if (wrong)
            fail(&program, "step %ld: line %d", step, wrong);
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&program, step);
    }
    if (is_root && seteuid(0))
        fail(&program, "not root any more");
    program_end(&program);
    MPI_Finalize();
    return 0;
}
