/*
 * issends - many synchronous sends that are pending while their receiver works.
 *
 * usage: mpirun -n 2 issends COUNT ROUNDS ORDER
 *
 * In each round rank 0 starts COUNT sends. When they are on their way, rank 1 works for WORK_S, and then
 * receives them: ORDER is "first" (in the order in which they were sent) or "last" (the last one first, for
 * which the MPI library walks past all the others). Rank 0 prints the sum of what has arrived.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORK_S 0.4

struct messages {
    int *values;
    MPI_Request *requests;
    int count; /* the tag of the one that says that all are on their way */
};

static void send_all(struct messages *m, int round)
{
    int none = 0;
    for (int i = 0; i < m->count; i++) {
        m->values[i] = round + i;
        MPI_Issend(&m->values[i], 1, MPI_INT, 1, i, MPI_COMM_WORLD, &m->requests[i]);
    }
    MPI_Send(&none, 1, MPI_INT, 1, m->count, MPI_COMM_WORLD);
    MPI_Waitall(m->count, m->requests, MPI_STATUSES_IGNORE);
}

static double work(double until)
{
    double value = 1;
    while (MPI_Wtime() < until)
        for (int i = 0; i < 1000; i++)
            value = value * 0.999 + 0.001;
    return value;
}

static long receive_all(const struct messages *m, int is_last_first)
{
    long sum = 0;
    int none;
    MPI_Recv(&none, 1, MPI_INT, 0, m->count, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    sum += work(MPI_Wtime() + WORK_S) > 2;
    for (int i = 0; i < m->count; i++) {
        int value, tag = is_last_first ? m->count - 1 - i : i;
        MPI_Recv(&value, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += value;
    }
    return sum;
}

int main(int argc, char **argv)
{
    int rank, rounds = argc > 3 ? atoi(argv[2]) : 0;
    struct messages m = {.count = argc > 3 ? atoi(argv[1]) : 0};
    long sum = 0, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    m.values = calloc((size_t)m.count + 1, sizeof *m.values);
    m.requests = calloc((size_t)m.count + 1, sizeof *m.requests);
    if (!m.values || !m.requests || m.count < 1) {
        fprintf(stderr, "usage: mpirun -n 2 issends COUNT ROUNDS ORDER\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int round = 0; round < rounds; round++) {
        if (rank == 0)
            send_all(&m, round);
        else if (rank == 1)
            sum += receive_all(&m, strcmp(argv[3], "last") == 0);
    }
    MPI_Reduce(&sum, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%ld\n", all);
    free(m.values);
    free(m.requests);
    return MPI_Finalize();
}
