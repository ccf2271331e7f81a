/*
 * late.c - a program that loads MPI by a path (MPI_LIBRARY names it), long after its start, and is not linked
 * with it: a ring that the first message's sender prints. It is linked with a library that has names of MPI.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/own_names.h"

#define FUNCTION(name) __typeof__(name) *name##_late = (__typeof__(name) *)find(library, #name)

static void *find(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "late: no %s\n", name);
        exit(3);
    }
    return found;
}

int main(void)
{
    const char *path = getenv("MPI_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (!library) {
        fprintf(stderr, "late: %s\n", path ? dlerror() : "MPI_LIBRARY is not set");
        return 3;
    }
    FUNCTION(MPI_Init);
    FUNCTION(MPI_Comm_rank);
    FUNCTION(MPI_Allreduce);
    FUNCTION(MPI_Finalize);
    MPI_Comm world = find(library, "ompi_mpi_comm_world");
    MPI_Datatype integer = find(library, "ompi_mpi_int");
    MPI_Op add = find(library, "ompi_mpi_op_sum");
    int rank, total = 0;
    MPI_Init_late(NULL, NULL);
    MPI_Comm_rank_late(world, &rank);
    for (int step = 1; step <= 200; step++) {
        int mine = step + rank + total % 1000, sum;
        struct timespec pause = {0, 15000000};
        MPI_Allreduce_late(&mine, &sum, 1, integer, add, world);
        total += sum;
        nanosleep(&pause, NULL);
    }
    if (rank == 0)
        printf("late: %d, %d functions are not the program's\n", total, own_names_displaced());
    MPI_Finalize_late();
    return 0;
}
