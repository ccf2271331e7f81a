/*
 * matrix - square matrices are multiplied. Each rank has as many rows of each; the rows of the second one go
 * round in a ring. The product, divided by its largest element, is the first one of the next round.
 *
 *     matrix MIB ROUNDS
 */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct matrix {
    int rank, ranks;
    size_t order, rows; /* rows: of each rank */
    double *first, *second, *product;
};

static void fill(struct matrix *matrix)
{
    for (size_t i = 0; i < matrix->rows; i++) {
        size_t row = (size_t)matrix->rank * matrix->rows + i;
        for (size_t j = 0; j < matrix->order; j++) {
            matrix->first[i * matrix->order + j] = (double)((row * 7 + j * 13) % 101) / 101;
            matrix->second[i * matrix->order + j] = (double)((row * 11 + j * 3) % 103) / 103;
        }
    }
}

/* The part of the product that comes of the rows of the second matrix that were `owner`'s. */
static void add_part(struct matrix *matrix, int owner)
{
    size_t order = matrix->order, column = (size_t)owner * matrix->rows;
    for (size_t i = 0; i < matrix->rows; i++) {
        double *to = matrix->product + i * order;
        for (size_t k = 0; k < matrix->rows; k++) {
            double factor = matrix->first[i * order + column + k];
            const double *from = matrix->second + k * order;
            for (size_t j = 0; j < order; j++)
                to[j] += factor * from[j];
        }
    }
}

static void multiply(struct matrix *matrix)
{
    int next = (matrix->rank + 1) % matrix->ranks, last = (matrix->rank + matrix->ranks - 1) % matrix->ranks;
    size_t count = matrix->rows * matrix->order;
    memset(matrix->product, 0, count * sizeof *matrix->product);
    for (int step = 0; step < matrix->ranks; step++) { /* after the last one all rows are at home again */
        add_part(matrix, (matrix->rank + matrix->ranks - step) % matrix->ranks);
        MPI_Sendrecv_replace(matrix->second, (int)count, MPI_DOUBLE, next, step, last, step, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
    }
}

static void take_product(struct matrix *matrix)
{
    size_t count = matrix->rows * matrix->order;
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(matrix->product[i]));
    MPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (size_t i = 0; i < count; i++)
        matrix->first[i] = matrix->product[i] / largest;
}

/* In the order of the rows, so that it does not depend on how sums are made. */
static void print_sum(const struct matrix *matrix, long rounds)
{
    double here = 0, of[2] = {0};
    for (size_t i = 0; i < matrix->rows * matrix->order; i++)
        here += matrix->first[i] * (double)(i % 17 + 1);
    MPI_Reduce(&here, &of[0], 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&here, &of[1], 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (matrix->rank == 0)
        printf("matrix: order %zu, %ld rounds, sum %.9g, largest part %.9g\n", matrix->order, rounds, of[0],
               of[1]);
}

int main(int argc, char **argv)
{
    struct matrix matrix = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &matrix.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &matrix.ranks);
    double mib = argc == 3 ? atof(argv[1]) : 0;
    long rounds = argc == 3 ? atol(argv[2]) : 0;
    double elements = mib * (1 << 20) / (3 * sizeof(double)); /* of each matrix, in each rank */
    matrix.rows = (size_t)sqrt(elements / matrix.ranks);
    matrix.order = matrix.rows * (size_t)matrix.ranks;
    size_t bytes = matrix.rows * matrix.order * sizeof(double);
    matrix.first = malloc(bytes);
    matrix.second = malloc(bytes);
    matrix.product = malloc(bytes);
    if (matrix.rows == 0 || bytes / sizeof(double) > INT32_MAX || !matrix.first || !matrix.second ||
        !matrix.product) {
        fprintf(stderr, "usage: matrix MIB ROUNDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    fill(&matrix);
    for (long round = 0; round < rounds; round++) {
        multiply(&matrix);
        take_product(&matrix);
    }
    print_sum(&matrix, rounds);
    free(matrix.first);
    free(matrix.second);
    free(matrix.product);
    MPI_Finalize();
    return 0;
}
