/*
 * counter - a PMPI tool: a library that counts the program's calls of MPI and tells at the end how many all
 * ranks have made. Preloaded, or linked with the program in front of libmpi.
 */
#include <mpi.h>
#include <stdio.h>

/* function, parameters, arguments */
#define FUNCTIONS                                                                                            \
    COUNTED(MPI_Send, (const void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f), (a, b, c, d, e, f))  \
    COUNTED(MPI_Recv, (void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f, MPI_Status *g),             \
            (a, b, c, d, e, f, g))                                                                           \
    COUNTED(MPI_Isend, (const void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f, MPI_Request *g),     \
            (a, b, c, d, e, f, g))                                                                           \
    COUNTED(MPI_Irecv, (void *a, int b, MPI_Datatype c, int d, int e, MPI_Comm f, MPI_Request *g),           \
            (a, b, c, d, e, f, g))                                                                           \
    COUNTED(MPI_Wait, (MPI_Request * a, MPI_Status * b), (a, b))                                             \
    COUNTED(MPI_Waitall, (int a, MPI_Request b[], MPI_Status c[]), (a, b, c))                                \
    COUNTED(MPI_Barrier, (MPI_Comm a), (a))                                                                  \
    COUNTED(MPI_Bcast, (void *a, int b, MPI_Datatype c, int d, MPI_Comm e), (a, b, c, d, e))                 \
    COUNTED(MPI_Gather,                                                                                      \
            (const void *a, int b, MPI_Datatype c, void *d, int e, MPI_Datatype f, int g, MPI_Comm h),       \
            (a, b, c, d, e, f, g, h))                                                                        \
    COUNTED(MPI_Allreduce, (const void *a, void *b, int c, MPI_Datatype d, MPI_Op e, MPI_Comm f),            \
            (a, b, c, d, e, f))                                                                              \
    COUNTED(MPI_Comm_rank, (MPI_Comm a, int *b), (a, b))                                                     \
    COUNTED(MPI_Comm_split, (MPI_Comm a, int b, int c, MPI_Comm *d), (a, b, c, d))                           \
    COUNTED(MPI_Comm_dup, (MPI_Comm a, MPI_Comm * b), (a, b))                                                \
    COUNTED(MPI_Comm_free, (MPI_Comm * a), (a))                                                              \
    COUNTED(MPI_Type_commit, (MPI_Datatype * a), (a))                                                        \
    COUNTED(MPI_Init, (int *a, char ***b), (a, b))                                                           \
    COUNTED(MPI_Init_thread, (int *a, char ***b, int c, int *d), (a, b, c, d))

#define COUNTED(function, parameters, arguments) NUMBER_OF_##function,
enum { FUNCTIONS COUNT };
#undef COUNTED

static long counts[COUNT];

#define COUNTED(function, parameters, arguments)                                                             \
    int function parameters                                                                                  \
    {                                                                                                        \
        counts[NUMBER_OF_##function]++;                                                                      \
        return P##function arguments;                                                                        \
    }
FUNCTIONS
#undef COUNTED

#define COUNTED(function, parameters, arguments) #function,
static const char *const names[] = {FUNCTIONS};

int MPI_Finalize(void)
{
    long sums[COUNT];
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Reduce(counts, sums, COUNT, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < COUNT; i++)
        printf("counter: %s %ld\n", names[i], sums[i]);
    fflush(stdout);
    return PMPI_Finalize();
}
