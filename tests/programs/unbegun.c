/*
 * unbegun - a program linked with MPI that never calls MPI_Init: it ends, as one does that only shows its
 * options, or executes another program.
 *
 * usage: unbegun [PROGRAM [args]]
 */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int is_initialized;
    MPI_Initialized(&is_initialized);
    if (argc > 1) {
        execv(argv[1], argv + 1);
        perror("unbegun");
        return 1;
    }
    return puts("usage: unbegun [PROGRAM [args]]") < 0 || is_initialized;
}
