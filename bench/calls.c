/*
 * calls - what a call of MPI costs: small operations between two or more ranks on one machine.
 *
 * Rank 0 prints one line per operation: its name and the nanoseconds that one takes (the best of a few
 * rounds, since a busy machine only ever adds). The option is the number of repetitions per round.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 5
#define WINDOW 64

struct bench {
    int rank, ranks;
    long repetitions;
    char out[WINDOW], in[WINDOW];
};

/* Each does `count` operations. */

static void half_round_trips(struct bench *bench, long count)
{
    if (bench->rank > 1)
        return;
    for (long i = 0; i < count / 2; i++) {
        if (bench->rank == 0)
            MPI_Send(bench->out, 8, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(bench->in, 8, MPI_CHAR, 1 - bench->rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (bench->rank == 1)
            MPI_Send(bench->out, 8, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    }
}

/* A window of messages both ways, completed by one Waitall of 64 requests; counted per Waitall. */
static void waitalls(struct bench *bench, long count)
{
    MPI_Request requests[WINDOW];
    if (bench->rank > 1)
        return;
    for (long i = 0; i < count; i++) {
        for (int j = 0; j < WINDOW / 2; j++) {
            MPI_Irecv(&bench->in[j], 1, MPI_CHAR, 1 - bench->rank, 0, MPI_COMM_WORLD, &requests[j]);
            MPI_Isend(&bench->out[j], 1, MPI_CHAR, 1 - bench->rank, 0, MPI_COMM_WORLD,
                      &requests[WINDOW / 2 + j]);
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    }
}

static void allreduces(struct bench *bench, long count)
{
    double mine = bench->rank, all;
    for (long i = 0; i < count; i++)
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void iprobes(struct bench *bench, long count)
{
    (void)bench;
    int flag;
    for (long i = 0; i < count; i++)
        MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static const struct {
    const char *name;
    void (*run)(struct bench *bench, long count);
    long share; /* of the repetitions: 1/share */
} operations[] = {
    {"half_round_trip_8B", half_round_trips, 1},
    {"waitall_64", waitalls, 20},
    {"allreduce_8B", allreduces, 2},
    {"iprobe", iprobes, 1},
};

static double best_ns(struct bench *bench, void (*run)(struct bench *bench, long count), long count)
{
    double best = 0;
    run(bench, count / 10 + 1); /* connections are made at the first message */
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        run(bench, count);
        double ns = (MPI_Wtime() - start) * 1e9 / (double)count;
        if (round == 0 || ns < best)
            best = ns;
    }
    return best;
}

int main(int argc, char **argv)
{
    struct bench bench = {.repetitions = argc > 1 ? atol(argv[1]) : 20000};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench.ranks);
    if (bench.ranks < 2 || bench.repetitions < 100) {
        if (bench.rank == 0)
            fprintf(stderr, "usage: mpirun -n RANKS calls [REPETITIONS] (at least 2 and 100)\n");
        MPI_Finalize();
        return 2;
    }
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        double ns = best_ns(&bench, operations[i].run, bench.repetitions / operations[i].share);
        if (bench.rank == 0)
            printf("%s %.1f\n", operations[i].name, ns);
    }
    MPI_Finalize();
    return 0;
}
