/*
 * programs.c - other programs, started in all ways, and what they are given.
 */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/histories/process/child.h"
#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/core/world.h"
#include "tests/programs/incarnation.h"

extern char **environ;

static struct child child;
static char word[32];

/* Beside this program. */
static const char *reporter(void)
{
    static char path[PATH_MAX];
    ssize_t bytes = path[0] ? 0 : readlink("/proc/self/exe", path, sizeof path - 20);
    if (bytes > 0 && strrchr(path, '/'))
        strcpy(strrchr(path, '/') + 1, "reporter");
    return path;
}

static char *const *arguments(void)
{
    static char *list[4];
    list[0] = (char *)reporter();
    list[1] = word;
    return list;
}

static pid_t by_exec(int report, void *context)
{
    (void)context;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(report, STDOUT_FILENO);
        execve(reporter(), arguments(), environ);
        _exit(98);
    }
    return pid;
}

static pid_t by_execvp(int report, void *context)
{
    (void)context;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(report, STDOUT_FILENO);
        execlp("sh", "sh", "-c", "echo \"$0 $1\"", "shell", word, (char *)NULL);
        _exit(98);
    }
    return pid;
}

static pid_t by_fexecve(int report, void *context)
{
    (void)context;
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(reporter(), O_RDONLY | O_CLOEXEC);
        dup2(report, STDOUT_FILENO);
        fexecve(fd, arguments(), environ);
        _exit(98);
    }
    return pid;
}

static pid_t by_vfork(int report, void *context)
{
    (void)context;
    pid_t pid = vfork();
    if (pid == 0) {
        dup2(report, STDOUT_FILENO);
        execve(reporter(), arguments(), environ);
        _exit(98);
    }
    return pid;
}

static pid_t by_spawn(int report, void *context)
{
    bool has_actions = *(bool *)context;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t pid = -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, report, STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    sigemptyset(&none);
    if (has_actions) {
        posix_spawn_file_actions_addclose(&actions, FIRST_NUMBER);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    }
    if (posix_spawn(&pid, reporter(), &actions, &attributes, arguments(), environ))
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return pid;
}

static void run(child_start_f *start)
{
    bool has_actions = chance(50);
    snprintf(word, sizeof word, "word-%zu", pick(1000));
    child_run(start, &has_actions, &child);
    child.text[strcspn(child.text, "\n")] = 0;
    say(" %s, status %x", child.text, (unsigned)child.status);
}

static void act_exec(void)
{
    run(by_exec);
}

static void act_shell(void)
{
    run(by_execvp);
}

static void act_fexecve(void)
{
    run(by_fexecve);
}

static void act_vfork(void)
{
    run(by_vfork);
}

static void act_spawn(void)
{
    run(by_spawn);
}

/* A stream from a child; done again if a restart has taken that. */
static void act_popen(void)
{
    char line[64] = "";
    int status;
    long before;
    do {
        before = incarnation();
        FILE *stream = popen("echo from a child", "r");
        if (!stream || !fgets(line, sizeof line, stream))
            *line = 0;
        status = stream ? pclose(stream) : -1;
    } while ((status != 0 || !*line) && incarnation() != before);
    say(" %.*s %x", (int)strcspn(line, "\n"), line, (unsigned)status);
}

static const struct operation operations[] = {
    {"exec", 2, act_exec},   {"shell", 1, act_shell}, {"fexecve", 1, act_fexecve},
    {"vfork", 2, act_vfork}, {"spawn", 2, act_spawn}, {"popen", 1, act_popen},
    {NULL, 0, NULL},
};

const struct kind kind_programs = {.name = "programs", .operations = operations};
