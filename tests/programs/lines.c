/*
 * lines - prints numbered lines, --steps of them in --seconds; each begins with the rank that printed it.
 * --mode says how:
 *   stdout  a line per step with printf, buffered as the C library likes
 *   both    the same to standard error, too, with write
 *   blocks  rank 0 only, through a buffer of 10000 bytes that is written whenever it is full
 *   writev  a line in three parts
 *   large   lines of 3000 bytes
 *   stdin   rank 0 reads a line per step from standard input, and all print it
 *   moved   rank 0 through a copy of standard output's descriptor, while /dev/null is in its place; rank 1
 *           to /dev/null; the others also through standard error, which they have made the same as output
 *   random  lines that differ in every run
 *   times   lines that differ in every run, also in their length
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define LINE_BYTES 4000

static void print_both(struct program *program, long step)
{
    char line[LINE_BYTES];
    int length = snprintf(line, sizeof line, "%d err %ld\n", program->rank, step);
    printf("%d out %ld\n", program->rank, step);
    if (write(STDERR_FILENO, line, (size_t)length) != length)
        fail(program, "write");
}

static void print_parts(struct program *program, long step)
{
    char rank[16], number[32];
    struct iovec parts[3] = {{rank, (size_t)snprintf(rank, sizeof rank, "%d", program->rank)},
                             {(char[]){" out "}, 5},
                             {number, (size_t)snprintf(number, sizeof number, "%ld\n", step)}};
    ssize_t length = (ssize_t)(parts[0].iov_len + parts[1].iov_len + parts[2].iov_len);
    if (writev(STDOUT_FILENO, parts, 3) != length)
        fail(program, "writev");
}

static void print_large(struct program *program, long step)
{
    char filling[LINE_BYTES];
    memset(filling, 'a' + (int)(step % 26), 3000);
    filling[3000] = '\0';
    printf("%d out %ld %s\n", program->rank, step, filling);
}

static void pass_input_on(struct program *program, long step)
{
    char line[LINE_BYTES] = "";
    if (program->rank == 0 && !fgets(line, sizeof line, stdin))
        fail(program, "no line %ld on standard input", step);
    MPI_Bcast(line, sizeof line, MPI_CHAR, 0, MPI_COMM_WORLD);
    printf("%d out %ld %s", program->rank, step, line);
}

static int moved = -1; /* a copy of standard output's descriptor */

static void move_streams(struct program *program)
{
    bool is_fine = true;
    if (program->rank == 0)
        moved = dup(STDOUT_FILENO);
    if (program->rank < 2)
        is_fine = freopen("/dev/null", "w", stdout);
    else
        is_fine = dup2(STDOUT_FILENO, STDERR_FILENO) == STDERR_FILENO;
    if (!is_fine)
        fail(program, "cannot move a stream");
}

static void print_moved(struct program *program, long step)
{
    printf("%d out %ld\n", program->rank, step);
    fflush(stdout);
    if (program->rank == 0)
        dprintf(moved, "%d out %ld\n", program->rank, step);
    if (program->rank >= 2)
        dprintf(STDERR_FILENO, "%d err %ld\n", program->rank, step);
}

/* As programs do that tell how long a step took. */
static void print_time(struct program *program, long step)
{
    double now = seconds_now();
    int digits = (int)(now * 1e6) % 10;
    printf("%d out %ld %.*f s\n", program->rank, step, digits, now);
}

static void print(struct program *program, long step)
{
    if (!strcmp(program->mode, "both"))
        print_both(program, step);
    else if (!strcmp(program->mode, "moved"))
        print_moved(program, step);
    else if (!strcmp(program->mode, "writev"))
        print_parts(program, step);
    else if (!strcmp(program->mode, "large"))
        print_large(program, step);
    else if (!strcmp(program->mode, "stdin"))
        pass_input_on(program, step);
    else if (!strcmp(program->mode, "blocks") && program->rank)
        return;
    else if (!strcmp(program->mode, "times"))
        print_time(program, step);
    else if (!strcmp(program->mode, "random"))
        printf("%d out %.9f\n", program->rank, seconds_now());
    else
        printf("%d out %ld\n", program->rank, step);
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 1000, .mode = "stdout"};
    static char buffer[10000];
    MPI_Init(&argc, &argv);
    program_begin(&program, "lines", argc, argv);
    if (!strcmp(program.mode, "blocks"))
        setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    if (!strcmp(program.mode, "moved"))
        move_streams(&program);
    for (long step = 1; step <= program.steps; step++) {
        print(&program, step);
        if (step % 100 == 0)
            MPI_Barrier(MPI_COMM_WORLD);
        program_step(&program, step);
    }
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    program_end(&program);
    MPI_Finalize();
    return 0;
}
