/*
 * exits - take --steps barriers, then end in the way that --mode says, on rank --rank:
 *   exit    exit status --value after MPI_Finalize (default; 0)
 *   early   exit(--value) without MPI_Finalize
 *   abort   MPI_Abort with --value
 *   error   a fatal error of MPI: a message to a rank that does not exist
 *   crash   a segmentation fault
 *   told    make "seen" and MPI_Abort with --value when there is a file "end"; the others wait for that
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/programs/program.h"

static void end_as_told(const struct program *program)
{
    if (strcmp(program->mode, "early") == 0)
        exit((int)program->value);
    if (strcmp(program->mode, "abort") == 0)
        MPI_Abort(MPI_COMM_WORLD, (int)program->value);
    if (strcmp(program->mode, "told") == 0) {
        while (access("end", F_OK) < 0)
            usleep(1000);
        close(open("seen", O_CREAT | O_WRONLY, 0600));
        MPI_Abort(MPI_COMM_WORLD, (int)program->value);
    }
    if (strcmp(program->mode, "error") == 0)
        MPI_Send(NULL, 0, MPI_BYTE, program->ranks, 0, MPI_COMM_WORLD);
    if (strcmp(program->mode, "crash") == 0)
        *(volatile int *)(uintptr_t)program->value = 0;
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 50};
    MPI_Init(&argc, &argv);
    program_begin(&program, "exits", argc, argv);
    for (long step = 1; step <= program.steps; step++) {
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&program, step);
    }
    if (program.rank == program.victim)
        end_as_told(&program);
    if (strcmp(program.mode, "told") == 0)
        MPI_Barrier(MPI_COMM_WORLD);
    program_end(&program);
    MPI_Finalize();
    return program.rank == program.victim ? (int)program.value : 0;
}
