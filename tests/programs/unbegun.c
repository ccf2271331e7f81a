/* unbegun - a program linked with MPI that ends before MPI_Init, as one does that only shows its options. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc > 1) {
        MPI_Init(&argc, &argv);
        MPI_Finalize();
    }
    return puts("usage: unbegun [WORD]") < 0;
}
