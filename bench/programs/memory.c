/*
 * memory - holds memory and copies it for ever: the state of which lines are taken, and their baseline.
 *
 * usage: mpirun -n RANKS memory MIB
 *
 * Every rank copies one half of its MIB over the other and back; all ranks begin together. After each round
 * of MIB per rank, rank 0 prints how long the slowest rank took, in nanoseconds. It ends when it is stopped.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double copy_round_ns(char *memory, size_t half)
{
    double slowest, start;
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    memcpy(memory, memory + half, half);
    memcpy(memory + half, memory, half);
    double mine = MPI_Wtime() - start;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest * 1e9;
}

int main(int argc, char **argv)
{
    int rank;
    size_t bytes = argc > 1 ? (size_t)atol(argv[1]) << 20 : 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char *memory = bytes ? malloc(bytes) : NULL;
    if (!memory) {
        fprintf(stderr, "usage: mpirun -n RANKS memory MIB (at least 1, at most what there is)\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (char)(i * 2654435761u >> 13);
    for (;;) {
        double ns = copy_round_ns(memory, bytes / 2);
        if (rank == 0) {
            printf("%.0f\n", ns);
            fflush(stdout);
        }
    }
}
