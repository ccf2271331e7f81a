/*
 * imbalance - one rank (--rank) computes for seconds/steps before each Allreduce; the others wait in it.
 */
#include <mpi.h>

#include "tests/programs/program.h"

static uint64_t compute_for(double seconds)
{
    double end = seconds_now() + seconds;
    volatile uint64_t work = 1;
    while (seconds_now() < end) {
        for (int i = 0; i < 10000; i++)
            work = work * 3 + 1;
    }
    return work;
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 5, .seconds = 5};
    MPI_Init(&argc, &argv);
    program_begin(&program, "imbalance", argc, argv);
    double each = program.seconds / (double)program.steps;
    program.seconds = 0; /* nobody but the one rank takes time */
    for (long step = 1; step <= program.steps; step++) {
        uint64_t mine = mix_number((uint64_t)program.rank, (uint64_t)step, 0), all;
        if (program.rank == program.victim)
            compute_for(each);
        MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
        digest_add_number(&program.digest, all);
        program_step(&program, step);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
