/*
 * compute - pure computation for --seconds between two barriers: no call of MPI, no system call.
 *
 * The work is a fixed number of --steps rounds, found out before the first barrier so that it lasts about
 * --seconds; the result does not depend on how many rounds there were.
 */
#include <mpi.h>

#include "tests/programs/program.h"

#define ROUND 1000000

/* Each round goes forth and back along a permutation, so any number of rounds gives the start again. */
static uint64_t rounds(uint64_t value, long count)
{
    for (long round = 0; round < count; round++) {
        for (int i = 0; i < ROUND; i++)
            value = value * 6364136223846793005u + 1442695040888963407u;
        for (int i = 0; i < ROUND; i++)
            value = (value - 1442695040888963407u) * 0xc097ef87329e28a5u; /* the inverse factor */
    }
    return value;
}

static long rounds_in(double seconds)
{
    volatile uint64_t value = 1;
    double start = seconds_now();
    value = rounds(value, 5);
    return 1 + (long)(5 * seconds / (seconds_now() - start));
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 1, .seconds = 2};
    MPI_Init(&argc, &argv);
    program_begin(&program, "compute", argc, argv);
    double each = program.seconds / (double)program.steps;
    program.seconds = 0;
    long count = rounds_in(each);
    for (long step = 1; step <= program.steps; step++) {
        MPI_Barrier(MPI_COMM_WORLD);
        volatile uint64_t value = mix_number((uint64_t)program.rank, (uint64_t)step, 0);
        value = rounds(value, count);
        MPI_Barrier(MPI_COMM_WORLD);
        digest_add_number(&program.digest, value);
        program_step(&program, step);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
