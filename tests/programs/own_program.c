/* own_program - a program that has functions of its own with the names of others (own_names.c), and a ring.
 */
#include <mpi.h>

#include "tests/programs/own_names.h"
#include "tests/programs/program.h"

int main(int argc, char **argv)
{
    struct program program = {.steps = 100, .seed = 1};
    MPI_Init(&argc, &argv);
    program_begin(&program, "own_program", argc, argv);
    int right = (program.rank + 1) % program.ranks, left = (program.rank + program.ranks - 1) % program.ranks;
    for (long step = 1; step <= program.steps; step++) {
        uint64_t out = mix_number(program.seed, (uint64_t)program.rank, (uint64_t)step), in;
        MPI_Request receive;
        MPI_Irecv(&in, 1, MPI_UINT64_T, left, 0, MPI_COMM_WORLD, &receive);
        MPI_Send(&out, 1, MPI_UINT64_T, right, 0, MPI_COMM_WORLD);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        digest_add_number(&program.digest, in);
        int displaced = own_names_displaced();
        if (displaced)
            fail(&program, "step %ld: %d functions are not the program's", step, displaced);
        program_step(&program, step);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
