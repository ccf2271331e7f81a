/*
 * memory - holds memory and works on it for ever: the state of which lines are taken, and their baseline.
 *
 * usage: mpirun -n RANKS memory MIB[,MIB...] [PERMILLE [REST_MS]]
 *
 * With several sizes, each rank has its own in the order of the ranks; the last one is that of all ranks
 * behind.
 *
 * Every rank copies one half of its MIB over the other and back; all ranks begin together. With PERMILLE it
 * writes to so many in a thousand of its pages instead, always the same ones, evenly spread; with more than
 * 1000 a byte of each 64 of all memory. After each round, rank 0 prints how long the slowest rank took, in
 * nanoseconds; then all rest for REST_MS, if that is given. It ends when it is stopped.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE 4096ul
#define LINE 64

static void copy(char *memory, size_t bytes)
{
    size_t half = bytes / 2;
    memcpy(memory, memory + half, half);
    memcpy(memory + half, memory, half);
}

static void write_some(char *memory, size_t bytes, size_t permille)
{
    size_t pages = bytes / PAGE, written = pages * permille / 1000;
    for (size_t i = 0; i < written; i++)
        memory[i * pages / written * PAGE]++;
}

/* A byte of each line of 64, so that nothing of a page is as before. */
static void write_lines(char *memory, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LINE)
        memory[at]++;
}

static void rest(long ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static double round_ns(char *memory, size_t bytes, size_t permille)
{
    double slowest, start;
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    if (permille > 1000)
        write_lines(memory, bytes);
    else if (permille)
        write_some(memory, bytes, permille);
    else
        copy(memory, bytes);
    double mine = MPI_Wtime() - start;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest * 1e9;
}

/* Of a list of sizes in MiB. */
static size_t size_of(const char *sizes, int rank)
{
    for (const char *next; rank > 0 && (next = strchr(sizes, ',')); rank--)
        sizes = next + 1;
    return (size_t)atol(sizes) << 20;
}

int main(int argc, char **argv)
{
    int rank;
    size_t permille = argc > 2 ? (size_t)atol(argv[2]) : 0;
    long rest_ms = argc > 3 ? atol(argv[3]) : 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    size_t bytes = argc > 1 ? size_of(argv[1], rank) : 0;
    char *memory = bytes ? malloc(bytes) : NULL;
    if (!memory) {
        fprintf(stderr, "usage: mpirun -n RANKS memory MIB[,MIB...] [PERMILLE [REST_MS]] (MIB: at least 1, "
                        "at most what there is)\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (char)(i * 2654435761u >> 13);
    for (;;) {
        double ns = round_ns(memory, bytes, permille);
        if (rank == 0) {
            printf("%.0f\n", ns);
            fflush(stdout);
        }
        if (rest_ms > 0)
            rest(rest_ms);
    }
}
