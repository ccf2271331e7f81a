/* dispositions_children.c - see dispositions.h. */
#define _GNU_SOURCE
#include "tests/programs/dispositions.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void no_child_is_left(int flags, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_flags = flags};
    int status;
    if (handler) {
        action.sa_sigaction = handler;
        action.sa_flags |= SA_SIGINFO;
    } else {
        action.sa_handler = SIG_IGN;
    }
    sigaction(SIGCHLD, &action, NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    expect(waitpid(child, &status, 0) == -1 && errno == ECHILD, "a child can be waited for");
    signal(SIGCHLD, SIG_DFL);
}

static const char *const child_argv[] = {"grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status", NULL};

static void exec_child(void)
{
    execv("/usr/bin/grep", (char *const *)(uintptr_t)child_argv);
    execv("/bin/grep", (char *const *)(uintptr_t)child_argv);
    _exit(127);
}

static pid_t spawn_child(const posix_spawnattr_t *attributes)
{
    pid_t child = -1;
    expect(posix_spawnp(&child, "grep", NULL, attributes, (char *const *)(uintptr_t)child_argv, environ) == 0,
           "posix_spawn");
    return child;
}

static pid_t by_fork(void)
{
    pid_t child = fork();
    if (child == 0)
        exec_child();
    return child;
}

/* The child changes its mask and its actions, which are not the parent's. */
static pid_t by_fork_and_change(void)
{
    pid_t child = fork();
    if (child == 0) {
        sigset_t set = only(SIGRTMAX - 2);
        sigaddset(&set, SIGUSR1);
        pthread_sigmask(SIG_SETMASK, &set, NULL);
        signal(SIGRTMAX - 2, SIG_IGN);
        signal(SIGUSR2, SIG_IGN);
        exec_child();
    }
    return child;
}

static pid_t by_vfork(void)
{
    pid_t child = vfork();
    if (child == 0)
        exec_child();
    return child;
}

static pid_t by_spawn(void)
{
    return spawn_child(NULL);
}

static pid_t by_spawn_with_all(void)
{
    posix_spawnattr_t attributes;
    sigset_t all;
    sigfillset(&all);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t child = spawn_child(&attributes);
    posix_spawnattr_destroy(&attributes);
    return child;
}

/* What a child that has become another program says of its signals. */
static void tell_child(const char *how, pid_t (*start)(void))
{
    char text[256] = "";
    int ends[2], status, used = 0, out = dup(STDOUT_FILENO);
    expect(pipe2(ends, O_CLOEXEC) == 0, "pipe");
    fflush(stdout);
    dup2(ends[1], STDOUT_FILENO);
    pid_t child = start();
    dup2(out, STDOUT_FILENO);
    close(out);
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], text + used, sizeof text - 1 - (size_t)used)) > 0;)
        used += (int)got;
    close(ends[0]);
    expect(child > 0 && waitpid(child, &status, 0) == child && status == 0, "a child's end");
    if (program.rank == 0)
        printf("%s:\n%s", how, text);
}

static void tell_children(const char *when)
{
    if (program.rank == 0)
        printf("%s\n", when);
    tell_child("fork", by_fork);
    tell_child("fork, then another mask and another action", by_fork_and_change);
    tell_child("vfork", by_vfork);
    tell_child("posix_spawn", by_spawn);
    tell_child("posix_spawn with all signals blocked", by_spawn_with_all);
    expect(mask_now() == 0 || mask_now() == ~0ul - 0x180040100ul, "a child has changed the mask");
}

void check_children(long step)
{
    sigset_t all;
    no_child_is_left(0, NULL);
    no_child_is_left(SA_NOCLDWAIT | SA_RESTART, on_once);
    if (step % (2 * CYCLE) != 1)
        return;
    tell_children("handlers, nothing blocked");
    sigfillset(&all);
    signal(SIGRTMAX - 2, SIG_IGN);
    signal(SIGSYS, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    tell_children("two ignored, all blocked");
    pthread_sigmask(SIG_UNBLOCK, &all, NULL);
    signal(SIGRTMAX - 2, SIG_DFL);
    signal(SIGSYS, SIG_DFL);
}
