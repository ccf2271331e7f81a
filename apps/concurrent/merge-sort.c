/*
 * merge-sort - numbers in each rank are sorted by merging, and then among the ranks: in as many steps as
 * there are ranks, neighbours merge what they have, and the lower one keeps the smaller half.
 *
 *     merge-sort MIB ROUNDS
 */
#include <inttypes.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sort {
    int rank, ranks;
    size_t count;               /* of numbers in each rank */
    uint64_t *numbers, *others; /* others: a second array, for merges and of the neighbour */
    uint64_t *merged;
};

static uint64_t mix(uint64_t number)
{
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
    return number ^ (number >> 31);
}

static void fill(struct sort *sort, long round)
{
    uint64_t first = ((uint64_t)round * (uint64_t)sort->ranks + (uint64_t)sort->rank) * sort->count;
    for (size_t i = 0; i < sort->count; i++)
        sort->numbers[i] = mix(first + i);
}

static void merge(const uint64_t *left, size_t left_count, const uint64_t *right, size_t right_count,
                  uint64_t *to)
{
    size_t i = 0, j = 0;
    for (size_t k = 0; k < left_count + right_count; k++) {
        int is_left = j == right_count || (i < left_count && left[i] <= right[j]);
        to[k] = is_left ? left[i++] : right[j++];
    }
}

/* From the bottom up, from one array to the other. */
static void sort_here(struct sort *sort)
{
    for (size_t width = 1; width < sort->count; width *= 2) {
        for (size_t at = 0; at < sort->count; at += 2 * width) {
            size_t left = sort->count - at < width ? sort->count - at : width;
            size_t right = sort->count - at - left < width ? sort->count - at - left : width;
            merge(sort->numbers + at, left, sort->numbers + at + left, right, sort->others + at);
        }
        uint64_t *sorted = sort->others;
        sort->others = sort->numbers;
        sort->numbers = sorted;
    }
}

static void exchange(struct sort *sort, int step)
{
    int is_lower = (sort->rank + step) % 2 == 0;
    int neighbour = is_lower ? sort->rank + 1 : sort->rank - 1;
    if (neighbour < 0 || neighbour >= sort->ranks)
        return;
    MPI_Sendrecv(sort->numbers, (int)sort->count, MPI_UINT64_T, neighbour, step, sort->others,
                 (int)sort->count, MPI_UINT64_T, neighbour, step, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    merge(sort->numbers, sort->count, sort->others, sort->count, sort->merged);
    memcpy(sort->numbers, sort->merged + (is_lower ? 0 : sort->count), sort->count * sizeof *sort->numbers);
}

/* Each number weighs as much as its place among all. */
static uint64_t sum(const struct sort *sort)
{
    uint64_t all = 0, first = (uint64_t)sort->rank * sort->count;
    for (size_t i = 0; i < sort->count; i++)
        all += sort->numbers[i] * (first + i + 1);
    return all;
}

static void check(const struct sort *sort)
{
    for (size_t i = 1; i < sort->count; i++) {
        if (sort->numbers[i - 1] > sort->numbers[i]) {
            fprintf(stderr, "merge-sort: rank %d is not sorted at %zu\n", sort->rank, i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

int main(int argc, char **argv)
{
    struct sort sort = {0};
    uint64_t here = 0, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &sort.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &sort.ranks);
    double mib = argc == 3 ? atof(argv[1]) : 0;
    long rounds = argc == 3 ? atol(argv[2]) : 0;
    sort.count =
        (size_t)(mib * (1 << 20) / (4 * sizeof *sort.numbers)); /* of four: merged is twice as large */
    sort.numbers = malloc(sort.count * sizeof *sort.numbers);
    sort.others = malloc(sort.count * sizeof *sort.others);
    sort.merged = malloc(2 * sort.count * sizeof *sort.merged);
    if (sort.count == 0 || sort.count > INT32_MAX || !sort.numbers || !sort.others || !sort.merged) {
        fprintf(stderr, "usage: merge-sort MIB ROUNDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (long round = 0; round < rounds; round++) {
        fill(&sort, round);
        sort_here(&sort);
        for (int step = 0; step < sort.ranks; step++)
            exchange(&sort, step);
        check(&sort);
        here += sum(&sort);
    }
    MPI_Reduce(&here, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (sort.rank == 0)
        printf("merge-sort: %ld rounds, sum %" PRIu64 "\n", rounds, all);
    free(sort.numbers);
    free(sort.others);
    free(sort.merged);
    MPI_Finalize();
    return 0;
}
