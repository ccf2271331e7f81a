/*
 * issends - many synchronous sends that wait for one another.
 *
 * usage: mpirun -n 2 issends COUNT ROUNDS
 *
 * In each round rank 0 starts COUNT sends, and rank 1 receives them, the last one first. Rank 0 prints the
 * sum of what has arrived.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void send_all(int *values, MPI_Request *requests, int count, int round)
{
    for (int i = 0; i < count; i++) {
        values[i] = round + i;
        MPI_Issend(&values[i], 1, MPI_INT, 1, i, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

static long receive_all(int count)
{
    long sum = 0;
    for (int i = count - 1; i >= 0; i--) {
        int value;
        MPI_Recv(&value, 1, MPI_INT, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += value;
    }
    return sum;
}

int main(int argc, char **argv)
{
    int rank, count = argc > 2 ? atoi(argv[1]) : 0, rounds = argc > 2 ? atoi(argv[2]) : 0;
    long sum = 0, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int *values = calloc((size_t)count + 1, sizeof *values);
    MPI_Request *requests = calloc((size_t)count + 1, sizeof(MPI_Request));
    if (!values || !requests || count < 1) {
        fprintf(stderr, "usage: mpirun -n 2 issends COUNT ROUNDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int round = 0; round < rounds; round++) {
        if (rank == 0)
            send_all(values, requests, count, round);
        else if (rank == 1)
            sum += receive_all(count);
    }
    MPI_Reduce(&sum, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%ld\n", all);
    free(values);
    free(requests);
    return MPI_Finalize();
}
