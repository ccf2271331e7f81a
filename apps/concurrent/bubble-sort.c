/*
 * bubble-sort - numbers are sorted by exchanging neighbours. In each round the larger of two neighbours goes
 * up through all numbers of a rank; then the ranks exchange their largest and smallest ones at the borders.
 *
 *     bubble-sort MIB ROUNDS
 */
#include <inttypes.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct bubbles {
    int rank, ranks;
    size_t count; /* of numbers in each rank */
    uint64_t *numbers;
};

static uint64_t mix(uint64_t number)
{
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
    return number ^ (number >> 31);
}

static void fill(struct bubbles *bubbles)
{
    for (size_t i = 0; i < bubbles->count; i++)
        bubbles->numbers[i] = mix((uint64_t)bubbles->rank * bubbles->count + i);
}

static void pass(struct bubbles *bubbles)
{
    uint64_t *numbers = bubbles->numbers, highest = numbers[0];
    for (size_t i = 1; i < bubbles->count; i++) {
        uint64_t next = numbers[i];
        numbers[i - 1] = highest < next ? highest : next;
        highest = highest < next ? next : highest;
    }
    numbers[bubbles->count - 1] = highest;
}

/* My number at this border, or the neighbour's. */
static void exchange(const struct bubbles *bubbles, int neighbour, uint64_t *mine)
{
    uint64_t theirs;
    int is_lower = bubbles->rank < neighbour;
    if (neighbour < 0 || neighbour >= bubbles->ranks)
        return;
    MPI_Sendrecv(mine, 1, MPI_UINT64_T, neighbour, 0, &theirs, 1, MPI_UINT64_T, neighbour, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (is_lower ? theirs < *mine : theirs > *mine)
        *mine = theirs;
}

/* Every second border, then the others, so that each number is at one border at a time. */
static void cross(struct bubbles *bubbles)
{
    for (int odd = 0; odd < 2; odd++) {
        int is_lower = (bubbles->rank + odd) % 2 == 0;
        exchange(bubbles, bubbles->rank + (is_lower ? 1 : -1),
                 &bubbles->numbers[is_lower ? bubbles->count - 1 : 0]);
    }
}

/* Each number weighs as much as its place among all. */
static uint64_t sum(const struct bubbles *bubbles)
{
    uint64_t all = 0, first = (uint64_t)bubbles->rank * bubbles->count;
    for (size_t i = 0; i < bubbles->count; i++)
        all += bubbles->numbers[i] * (first + i + 1);
    return all;
}

int main(int argc, char **argv)
{
    struct bubbles bubbles = {0};
    uint64_t here, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &bubbles.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bubbles.ranks);
    double mib = argc == 3 ? atof(argv[1]) : 0;
    long rounds = argc == 3 ? atol(argv[2]) : 0;
    bubbles.count = (size_t)(mib * (1 << 20) / sizeof *bubbles.numbers);
    bubbles.numbers = malloc(bubbles.count * sizeof *bubbles.numbers);
    if (bubbles.count == 0 || !bubbles.numbers) {
        fprintf(stderr, "usage: bubble-sort MIB ROUNDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    fill(&bubbles);
    for (long round = 0; round < rounds; round++) {
        pass(&bubbles);
        cross(&bubbles);
    }
    here = sum(&bubbles);
    MPI_Reduce(&here, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (bubbles.rank == 0)
        printf("bubble-sort: %ld rounds, sum %" PRIu64 "\n", rounds, all);
    free(bubbles.numbers);
    MPI_Finalize();
    return 0;
}
