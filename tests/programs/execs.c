/*
 * execs - a process that executes programs: itself before MPI_Init, others that cannot be executed, children,
 * and something else at the end. --mode says which, with "-" between several:
 *
 * - again: itself three times, with another environment and limits: by /proc/self/exe, by argv[0] in a
 * thread, by a shell; each writes to a file
 * - alone: itself without the launcher's variables: each rank is the only one of a world of its own
 * - failing: at each step what cannot be executed, from both threads
 * - children: at each step itself as a child, by fork, vfork, posix_spawn and fexecve
 * - after: a shell in its place after MPI_Finalize; that of the rank --rank ends with status --value
 * - between: the same after half of the steps, in that rank only
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define TIMES "EXECS_TIMES"
#define CHILD "--child"
#define CHILD_STATUS 7
#define STACK_BYTES (12ul << 20)
#define ARGUMENT_BYTES (256ul << 10) /* more than one may have */

extern char **environ;

/* As long as the options have not been parsed. */
static bool has_mode(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "--mode"))
            return strstr(argv[i + 1], name);
    return false;
}

static void stop(const char *what)
{
    perror(what);
    exit(4);
}

static void execute_alone(char **argv)
{
    char *environment[] = {(char *)(uintptr_t) "PATH=/usr/bin:/bin", (char *)(uintptr_t)TIMES "=1", NULL};
    execve("/proc/self/exe", argv, environment);
    stop("execute alone");
}

/* What a failed call has to leave behind: nothing. */
static void fail_to_execute(const char *path, int expected)
{
    static char long_argument[ARGUMENT_BYTES];
    char *argv[] = {(char *)(uintptr_t) "program", NULL, NULL};
    memset(long_argument, 'x', sizeof long_argument - 1);
    if (expected == E2BIG)
        argv[1] = long_argument;
    if (execv(path, argv) != -1 || errno != expected)
        stop(path);
}

static void *fail_to_execute_all(void *text)
{
    fail_to_execute("/nowhere/program", ENOENT);
    fail_to_execute("/", EACCES);
    fail_to_execute(text, ENOEXEC);
    fail_to_execute("/bin/sh", E2BIG);
    if (execlp("no-such-program-anywhere", "x", NULL) != -1 || errno != ENOENT)
        stop("execlp");
    return text;
}

/* A file that may be executed, but is no program. */
static const char *make_text(void)
{
    static char path[64];
    snprintf(path, sizeof path, "text-%d", (int)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    if (fd < 0 || write(fd, "\1\2\3\4", 4) != 4 || close(fd))
        stop(path);
    return path;
}

static void fail_in_two_threads(void)
{
    pthread_t thread;
    const char *text = make_text();
    if (pthread_create(&thread, NULL, fail_to_execute_all, (void *)(uintptr_t)text))
        stop("thread");
    fail_to_execute_all((void *)(uintptr_t)text);
    pthread_join(thread, NULL);
    unlink(text);
}

/* All other threads are ended, the main thread too. */
static void *execute_in_thread(void *argv)
{
    execvp(((char **)argv)[0], argv);
    stop("execute in a thread");
    return NULL;
}

/* What a program leaves behind for the next one: a file removed, one changed. */
static void change_files(int times)
{
    char name[64];
    snprintf(name, sizeof name, "exec-%s", getenv("OMPI_COMM_WORLD_RANK"));
    if (times == 1 && unlink(name))
        stop(name);
    FILE *file = fopen(name, "a");
    if (!file || fprintf(file, "program %d\n", times) < 0 || fclose(file))
        stop(name);
}

static void execute_again(int times, char **argv)
{
    char text[16];
    char *shell[64] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
                       (char *)(uintptr_t) "exec \"$0\" \"$@\""};
    struct rlimit limit;
    pthread_t thread;
    fail_in_two_threads();
    change_files(times);
    snprintf(text, sizeof text, "%d", times + 1);
    setenv(TIMES, text, 1);
    getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = STACK_BYTES + (unsigned)times;
    if (setrlimit(RLIMIT_STACK, &limit))
        stop("setrlimit");
    umask((mode_t)(020 + times));
    if (!strcmp(getenv("OMPI_COMM_WORLD_RANK"), "0")) {
        printf("executed again after %d times\n", times);
        fflush(stdout);
    }
    for (int i = 0; argv[i] && i < 60; i++)
        shell[3 + i] = argv[i];
    if (times == 0)
        execv("/proc/self/exe", argv);
    else if (times == 1 && pthread_create(&thread, NULL, execute_in_thread, argv) == 0)
        pthread_join(thread, NULL);
    else
        execv("/bin/sh", shell);
    stop("execute again");
}

static void check_inherited(const struct program *program)
{
    struct rlimit limit;
    mode_t mask = umask(0);
    getrlimit(RLIMIT_STACK, &limit);
    if (mask != 022 || limit.rlim_cur != STACK_BYTES + 2)
        fail(program, "umask %o, stack %lu", mask, (unsigned long)limit.rlim_cur);
    umask(mask);
}

static pid_t start_child(int way)
{
    char *argv[] = {(char *)(uintptr_t) "child", (char *)(uintptr_t)CHILD, NULL};
    pid_t child = -1;
    if (way == 0) {
        int code = posix_spawn(&child, "/proc/self/exe", NULL, NULL, argv, environ);
        return code ? -1 : child;
    }
    child = way == 1 ? vfork() : fork();
    if (child == 0 && way == 3)
        fexecve(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), argv, environ);
    if (child == 0)
        execv("/proc/self/exe", argv);
    if (child == 0)
        _exit(9);
    return child;
}

/* One that was alive at a line is gone after a restart: it is started again. */
static void run_children(struct program *program)
{
    for (int way = 0, lost = 0; way < 4;) {
        int status = 0;
        pid_t child = start_child(way), got = waitpid(child, &status, 0);
        if (child < 0 || (got < 0 && ++lost > 2))
            fail(program, "child %d is lost again and again", way);
        if (got == child && status != CHILD_STATUS << 8)
            fail(program, "child %d ended with %x", way, status);
        way += got == child;
    }
    digest_add_number(&program->digest, 4);
}

/* Only one of them has a status: the launcher ends the other ranks at once, whatever they have left to say.
 */
static void become_shell(const struct program *program)
{
    char line[128] = ":";
    fflush(stdout);
    if (program->rank == program->victim)
        snprintf(line, sizeof line, "echo shell of rank %d; exit %ld", program->rank, program->value);
    execl("/bin/sh", "sh", "-c", line, NULL);
    stop("/bin/sh");
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 20};
    const char *times = getenv(TIMES);
    if (argc > 1 && !strcmp(argv[1], CHILD))
        return CHILD_STATUS;
    if (has_mode(argc, argv, "again") && (!times || atoi(times) < 3))
        execute_again(times ? atoi(times) : 0, argv);
    if (has_mode(argc, argv, "alone") && !times)
        execute_alone(argv);
    MPI_Init(&argc, &argv);
    program_begin(&program, "execs", argc, argv);
    if (strstr(program.mode, "again"))
        check_inherited(&program);
    for (long step = 1; step <= program.steps; step++) {
        if (strstr(program.mode, "failing"))
            fail_in_two_threads();
        if (strstr(program.mode, "children"))
            run_children(&program);
        if (strstr(program.mode, "between") && program.rank == program.victim && step > program.steps / 2)
            become_shell(&program);
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&program, step);
    }
    program_end(&program);
    MPI_Finalize();
    if (strstr(program.mode, "after"))
        become_shell(&program);
    return 0;
}
