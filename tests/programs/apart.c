/*
 * apart - the ranks have nothing to do with one another: each one notes its steps where others see it.
 *
 * Each step appends a line to the rank's own file, "apart-RANK", which a restart rolls back, and says "RANK
 * STEP" to the named pipe --mode, which nobody rolls back. A rank that others believe to be lost would go on.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/programs/program.h"

/* Nobody reads the pipe in an undisturbed run. */
static void say(const struct program *program, const char *text)
{
    int fd = *program->mode ? open(program->mode, O_WRONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    if (write(fd, text, strlen(text)) < 0)
        fail(program, "the pipe takes nothing");
    close(fd);
}

static void append(const struct program *program, const char *text)
{
    char name[32];
    snprintf(name, sizeof name, "apart-%d", program->rank);
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        fail(program, "%s cannot be written", name);
    close(fd);
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 500};
    char text[64];
    MPI_Init(&argc, &argv);
    program_begin(&program, "apart", argc, argv);
    for (long step = 1; step <= program.steps; step++) {
        snprintf(text, sizeof text, "%d %ld\n", program.rank, step);
        append(&program, text);
        say(&program, text);
        digest_add_number(&program.digest, (uint64_t)step);
        program_step(&program, step);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
