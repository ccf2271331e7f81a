/*
 * kernels - what the NAS Parallel Benchmarks CG and FT do with memory and messages, with about --value MiB in
 * each rank; a step is an iteration.
 *
 * --mode cg: conjugate gradients with a sparse matrix of a random pattern. All of the matrix is read in each
 * step, the vectors are written, and elements of the vector of all ranks are read in no order. --mode ft: a
 * Fourier transform in two dimensions and back, of rows and of columns: all memory is written in each step,
 * and each rank sends a block to each other one.
 */
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/program.h"

#define MIB (1ul << 20)

/* ---- CG ---- */

#define NEIGHBOURS 8  /* to each side, of an element of the vector */
#define ITERATIONS 25 /* until it begins anew, with another right side */

struct cg {
    long rows, all; /* of this rank, and of all */
    int *columns;   /* 2 * NEIGHBOURS of each row */
    double *values;
    double *whole;         /* the direction, of all ranks */
    double *z, *r, *p, *q; /* rows each */
    double rho;
};

static double sum_of_all(double mine)
{
    double sum;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

static double product(const double *one, const double *other, long rows)
{
    double sum = 0;
    for (long i = 0; i < rows; i++)
        sum += one[i] * other[i];
    return sum_of_all(sum);
}

/* Symmetric: the weight of two elements follows from the smaller one's number. */
static void begin_row(struct cg *cg, const struct program *program, long row, const long *distances)
{
    long number = program->rank * cg->rows + row;
    for (long i = 0; i < NEIGHBOURS; i++) {
        long above = (number + distances[i]) % cg->all, below = (number + cg->all - distances[i]) % cg->all;
        long at = row * 2 * NEIGHBOURS + 2 * i;
        cg->columns[at] = (int)above;
        cg->values[at] = -(double)(1 + mix_number((uint64_t)number, (uint64_t)i, 1) % 9);
        cg->columns[at + 1] = (int)below;
        cg->values[at + 1] = -(double)(1 + mix_number((uint64_t)below, (uint64_t)i, 1) % 9);
    }
}

static void restart_cg(struct cg *cg, const struct program *program, uint64_t round)
{
    for (long i = 0; i < cg->rows; i++) {
        uint64_t bits = mix_number((uint64_t)(program->rank * cg->rows + i), round, 2);
        cg->z[i] = 0;
        cg->r[i] = cg->p[i] = 1 + (double)(bits % 1000) / 1000;
    }
    cg->rho = product(cg->r, cg->r, cg->rows);
}

static void *allocate(const struct program *program, size_t bytes)
{
    void *memory = malloc(bytes);
    if (!memory)
        fail(program, "no memory");
    return memory;
}

static struct cg begin_cg(const struct program *program)
{
    const size_t row_bytes = 2 * NEIGHBOURS * (sizeof(int) + sizeof(double)) + 4 * sizeof(double);
    struct cg cg = {.rows = (long)((size_t)program->value * MIB / row_bytes)};
    long distances[NEIGHBOURS];
    cg.all = cg.rows * program->ranks;
    cg.columns = allocate(program, (size_t)cg.rows * 2 * NEIGHBOURS * sizeof *cg.columns);
    cg.values = allocate(program, (size_t)cg.rows * 2 * NEIGHBOURS * sizeof *cg.values);
    cg.whole = allocate(program, (size_t)cg.all * sizeof *cg.whole);
    cg.z = allocate(program, (size_t)cg.rows * sizeof *cg.z);
    cg.r = allocate(program, (size_t)cg.rows * sizeof *cg.r);
    cg.p = allocate(program, (size_t)cg.rows * sizeof *cg.p);
    cg.q = allocate(program, (size_t)cg.rows * sizeof *cg.q);
    for (long i = 0; i < NEIGHBOURS; i++)
        distances[i] = 1 + (long)(mix_number(program->seed, (uint64_t)i, 0) % (uint64_t)(cg.all - 1));
    for (long row = 0; row < cg.rows; row++)
        begin_row(&cg, program, row, distances);
    return cg;
}

/* q = A p; the diagonal is what makes the sum of each row 1. */
static void multiply(struct cg *cg)
{
    MPI_Allgather(cg->p, (int)cg->rows, MPI_DOUBLE, cg->whole, (int)cg->rows, MPI_DOUBLE, MPI_COMM_WORLD);
    for (long row = 0; row < cg->rows; row++) {
        double sum = 0, weights = 1;
        for (long at = row * 2 * NEIGHBOURS; at < (row + 1) * 2 * NEIGHBOURS; at++) {
            sum += cg->values[at] * cg->whole[cg->columns[at]];
            weights -= cg->values[at];
        }
        cg->q[row] = sum + weights * cg->p[row];
    }
}

static double iterate(struct cg *cg)
{
    multiply(cg);
    double alpha = cg->rho / product(cg->p, cg->q, cg->rows);
    for (long i = 0; i < cg->rows; i++) {
        cg->z[i] += alpha * cg->p[i];
        cg->r[i] -= alpha * cg->q[i];
    }
    double rho = product(cg->r, cg->r, cg->rows), beta = rho / cg->rho;
    for (long i = 0; i < cg->rows; i++)
        cg->p[i] = cg->r[i] + beta * cg->p[i];
    cg->rho = rho;
    return product(cg->z, cg->z, cg->rows);
}

static void run_cg(struct program *program)
{
    struct cg cg = begin_cg(program);
    for (long step = 1; step <= program->steps; step++) {
        if ((step - 1) % ITERATIONS == 0)
            restart_cg(&cg, program, (uint64_t)step);
        double norm = iterate(&cg);
        digest_add(&program->digest, &norm, sizeof norm);
        program_step(program, step);
    }
    digest_add(&program->digest, cg.z, (size_t)cg.rows * sizeof *cg.z);
}

/* ---- FT ---- */

struct number {
    double re, im;
};

struct ft {
    long side, rows;               /* of the whole square; of this rank */
    struct number *field, *turned; /* rows * side each */
    struct number *roots;          /* of unity: side / 2 */
};

static struct number times(struct number a, struct number b)
{
    return (struct number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static void swap_bits(struct number *row, long side)
{
    for (long i = 1, j = 0; i < side; i++) {
        long bit = side >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            struct number kept = row[i];
            row[i] = row[j];
            row[j] = kept;
        }
    }
}

/* Cooley and Tukey's, in place. */
static void transform_row(const struct ft *ft, struct number *row, bool is_back)
{
    swap_bits(row, ft->side);
    for (long length = 2; length <= ft->side; length *= 2)
        for (long first = 0; first < ft->side; first += length)
            for (long i = 0; i < length / 2; i++) {
                struct number root = ft->roots[i * (ft->side / length)];
                root.im = is_back ? -root.im : root.im;
                struct number *low = &row[first + i], *high = low + length / 2, part = times(*high, root);
                *high = (struct number){low->re - part.re, low->im - part.im};
                *low = (struct number){low->re + part.re, low->im + part.im};
            }
}

/* Columns become rows: a block for each rank, which is turned where it arrives. */
static void turn(struct ft *ft, int ranks)
{
    const long block = ft->rows * ft->rows;
    for (int rank = 0; rank < ranks; rank++)
        for (long row = 0; row < ft->rows; row++)
            memcpy(ft->turned + rank * block + row * ft->rows, ft->field + row * ft->side + rank * ft->rows,
                   (size_t)ft->rows * sizeof *ft->field);
    MPI_Alltoall(ft->turned, (int)(2 * block), MPI_DOUBLE, ft->field, (int)(2 * block), MPI_DOUBLE,
                 MPI_COMM_WORLD);
    memcpy(ft->turned, ft->field, (size_t)ranks * (size_t)block * sizeof *ft->field);
    for (int rank = 0; rank < ranks; rank++)
        for (long row = 0; row < ft->rows; row++)
            for (long column = 0; column < ft->rows; column++)
                ft->field[column * ft->side + rank * ft->rows + row] =
                    ft->turned[rank * block + row * ft->rows + column];
}

static void transform(struct ft *ft, int ranks, bool is_back)
{
    for (int dimension = 0; dimension < 2; dimension++) {
        for (long row = 0; row < ft->rows; row++)
            transform_row(ft, ft->field + row * ft->side, is_back);
        turn(ft, ranks);
    }
}

/* High frequencies fade, and the field is as large as before. */
static void evolve(struct ft *ft, int rank)
{
    const double all = (double)ft->side * (double)ft->side;
    for (long row = 0; row < ft->rows; row++)
        for (long column = 0; column < ft->side; column++) {
            double x = (double)(rank * ft->rows + row) / (double)ft->side,
                   y = (double)column / (double)ft->side;
            double fading = 1 / (1 + 0.001 * (x * (1 - x) + y * (1 - y))) / all;
            struct number *at = &ft->field[row * ft->side + column];
            *at = (struct number){at->re * fading, at->im * fading};
        }
}

static struct ft begin_ft(const struct program *program)
{
    const double circle = 6.283185307179586;
    struct ft ft = {.side = 2 * program->ranks};
    /* Two squares of complex numbers on all ranks. */
    while ((size_t)(ft.side * ft.side) * 8 * sizeof(struct number) <=
           (size_t)program->value * MIB * (size_t)program->ranks)
        ft.side *= 2;
    if (ft.side & (ft.side - 1))
        fail(program, "the number of ranks is no power of 2");
    ft.rows = ft.side / program->ranks;
    ft.field = allocate(program, (size_t)(ft.rows * ft.side) * sizeof *ft.field);
    ft.turned = allocate(program, (size_t)(ft.rows * ft.side) * sizeof *ft.turned);
    ft.roots = allocate(program, (size_t)ft.side / 2 * sizeof *ft.roots);
    for (long i = 0; i < ft.side / 2; i++)
        ft.roots[i] = (struct number){cos(circle * (double)i / (double)ft.side),
                                      -sin(circle * (double)i / (double)ft.side)};
    for (long i = 0; i < ft.rows * ft.side; i++) {
        uint64_t bits = mix_number((uint64_t)program->rank, (uint64_t)i, program->seed);
        ft.field[i] = (struct number){(double)(bits % 1000) / 1000, (double)(bits / 1000 % 1000) / 1000};
    }
    return ft;
}

static void run_ft(struct program *program)
{
    struct ft ft = begin_ft(program);
    for (long step = 1; step <= program->steps; step++) {
        transform(&ft, program->ranks, false);
        evolve(&ft, program->rank);
        transform(&ft, program->ranks, true);
        double mine = 0;
        for (long i = 0; i < ft.rows * ft.side; i += 97)
            mine += ft.field[i].re - ft.field[i].im;
        double sum = sum_of_all(mine);
        digest_add(&program->digest, &sum, sizeof sum);
        program_step(program, step);
    }
    digest_add(&program->digest, ft.field, (size_t)(ft.rows * ft.side) * sizeof *ft.field);
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 100, .value = 16, .mode = "cg"};
    MPI_Init(&argc, &argv);
    program_begin(&program, "kernels", argc, argv);
    if (!strcmp(program.mode, "ft"))
        run_ft(&program);
    else
        run_cg(&program);
    program_end(&program);
    MPI_Finalize();
    return 0;
}
