/*
 * process - what a process does beside MPI. --mode says what each step does:
 *   stack     recurse over --value MiB of stack (default 64), with a sleep at every MiB
 *   nameless  add to a System V shared memory segment and to a file, both without a name
 *   children  fork a child that ends, system(), popen(), and a statically linked program beside this one
 */
#include <libgen.h>
#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define MIB (1 << 20)

static uint64_t descend(long levels, uint64_t value)
{
    volatile char frame[MIB];
    const struct timespec nap = {0, 1000000};
    for (int i = 0; i < MIB; i += 4096)
        frame[i] = (char)(value + (uint64_t)i / 4096 + (uint64_t)levels);
    nanosleep(&nap, NULL);
    uint64_t below = levels > 1 ? descend(levels - 1, value * 31 + 7) : value;
    for (int i = 0; i < MIB; i += 4096)
        if (frame[i] != (char)(value + (uint64_t)i / 4096 + (uint64_t)levels))
            return 0;
    return below + 1;
}

static void use_stack(struct program *program, long step)
{
    uint64_t result = descend(program->value, (uint64_t)step);
    if (!result)
        fail(program, "step %ld: the stack has changed", step);
    digest_add_number(&program->digest, result);
}

/*
 * True if a child ended as it should. One that was alive at a line is gone after a restart, and whoever waits
 * for it gets -1: the step is done again then. Anything else is a failure.
 */
static bool ended(const struct program *program, const char *what, int got, int wanted)
{
    if (got != wanted && got != -1)
        fail(program, "%s: %d instead of %d", what, got, wanted);
    return got == wanted;
}

static bool fork_ends(const struct program *program)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(5);
    return ended(program, "fork", waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : -1, 5);
}

static bool popen_ends(const struct program *program, const char *helper)
{
    char line[64] = "";
    FILE *pipe = popen(helper, "r");
    if (!pipe)
        fail(program, "popen failed");
    bool is_read = fgets(line, sizeof line, pipe) && strcmp(line, "static: ran\n") == 0;
    int status = pclose(pipe);
    if (!is_read && status != -1)
        fail(program, "popen gave '%s' and status %d", line, status);
    return is_read && ended(program, "pclose", status, 0);
}

static void use_children(struct program *program, const char *helper)
{
    int lost = 0;
    while (!fork_ends(program) || !ended(program, "system", system("exit 3"), 3 << 8) ||
           !popen_ends(program, helper))
        if (++lost > 2) /* one restart can take one child */
            fail(program, "children are lost again and again");
}

struct nameless {
    unsigned char *segment;
    FILE *file;
};

static void make_nameless(const struct program *program, struct nameless *things)
{
    int id = shmget(IPC_PRIVATE, MIB, IPC_CREAT | 0600);
    void *segment = id < 0 ? NULL : shmat(id, NULL, 0);
    things->file = tmpfile();
    if (id < 0 || segment == (void *)-1 || shmctl(id, IPC_RMID, NULL) || !things->file)
        fail(program, "no shared memory or temporary file");
    things->segment = segment;
}

/* Both are read back whole: what was put in before a restart counts, too. */
static void use_nameless(struct program *program, struct nameless *things, long step)
{
    long number, expected = 1;
    things->segment[step % MIB] = (unsigned char)step;
    fprintf(things->file, "%ld\n", step);
    rewind(things->file);
    for (; fscanf(things->file, "%ld", &number) == 1; expected++)
        if (number != expected || things->segment[number % MIB] != (unsigned char)number)
            fail(program, "step %ld: %ld at place %ld", step, number, expected);
    if (expected != step + 1)
        fail(program, "step %ld: the file ends after %ld", step, expected - 1);
    digest_add_number(&program->digest, (uint64_t)number);
}

/* An address that is taken is only a hint: the mapping goes elsewhere. */
static void use_taken_hint(const struct program *program)
{
    const size_t bytes = 4096;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *one = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    char *two = mmap(one, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (one == MAP_FAILED || two == MAP_FAILED || one == two)
        fail(program, "a mapping at an address that is taken: %p, %p", (void *)one, (void *)two);
    munmap(one, bytes);
    munmap(two, bytes);
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 20, .mode = "stack", .value = 64};
    char helper[PATH_MAX + 16] = "";
    struct nameless things;
    MPI_Init(&argc, &argv);
    program_begin(&program, "process", argc, argv);
    if (readlink("/proc/self/exe", helper, PATH_MAX) < 0)
        fail(&program, "no /proc/self/exe");
    strcat(dirname(helper), "/static");
    make_nameless(&program, &things);
    use_taken_hint(&program);
    for (long step = 1; step <= program.steps; step++) {
        if (strcmp(program.mode, "stack") == 0)
            use_stack(&program, step);
        else if (strcmp(program.mode, "nameless") == 0)
            use_nameless(&program, &things, step);
        else
            use_children(&program, helper);
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&program, step);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
