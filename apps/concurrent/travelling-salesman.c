/*
 * travelling-salesman - the shortest tour through all cities, by branch and bound. Partial tours wait in a
 * heap, the most promising one first; the ranks have those with different beginnings, and tell one another
 * the shortest tour so far. Each round is a tour through other cities. A full heap is worked off depth first.
 *
 *     travelling-salesman MIB ROUNDS
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CITIES 15
#define TURN 20000 /* partial tours that a rank looks at before all tell what they have found */

struct tour {
    uint32_t bound; /* no whole tour that begins so is shorter */
    uint32_t length;
    uint8_t count;
    uint8_t cities[CITIES];
};

struct search {
    int rank, ranks;
    uint32_t distance[CITIES][CITIES], nearest[CITIES]; /* nearest: the shortest way out of a city */
    uint32_t shortest;
    struct tour *heap;
    size_t count, room;
    uint64_t looked_at;
};

static uint64_t mix(uint64_t number)
{
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
    return number ^ (number >> 31);
}

static void place_cities(struct search *search, long round)
{
    for (int i = 0; i < CITIES; i++)
        for (int j = 0; j < i; j++)
            search->distance[i][j] = search->distance[j][i] =
                (uint32_t)(1000 +
                           mix(((uint64_t)round * CITIES + (uint64_t)i) * CITIES + (uint64_t)j) % 1000);
    for (int i = 0; i < CITIES; i++) {
        search->distance[i][i] = UINT32_MAX / CITIES;
        search->nearest[i] = UINT32_MAX;
        for (int j = 0; j < CITIES; j++)
            if (j != i && search->distance[i][j] < search->nearest[i])
                search->nearest[i] = search->distance[i][j];
    }
}

/* ---- the heap ---- */

static void push(struct search *search, const struct tour *tour)
{
    size_t at = search->count++;
    for (; at > 0 && search->heap[(at - 1) / 2].bound > tour->bound; at = (at - 1) / 2)
        search->heap[at] = search->heap[(at - 1) / 2];
    search->heap[at] = *tour;
}

static struct tour pop(struct search *search)
{
    struct tour first = search->heap[0], last = search->heap[--search->count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < search->count && search->heap[child + 1].bound < search->heap[child].bound)
            child++;
        if (child >= search->count || search->heap[child].bound >= last.bound)
            break;
        search->heap[at] = search->heap[child];
        at = child;
    }
    search->heap[at] = last;
    return first;
}

/* ---- tours ---- */

static int has(const struct tour *tour, uint8_t city)
{
    return memchr(tour->cities, city, tour->count) != NULL;
}

/* From its last city on, each way is as long as the shortest one out of its city. */
static uint32_t bound_of(const struct search *search, const struct tour *tour)
{
    uint32_t bound = tour->length + search->nearest[tour->cities[tour->count - 1]];
    for (uint8_t city = 0; city < CITIES; city++)
        if (!has(tour, city))
            bound += search->nearest[city];
    return bound;
}

static void go_on(struct search *search, const struct tour *tour);

static void take(struct search *search, const struct tour *tour)
{
    uint8_t last = tour->cities[tour->count - 1];
    if (tour->count == CITIES) {
        uint32_t length = tour->length + search->distance[last][tour->cities[0]];
        search->shortest = length < search->shortest ? length : search->shortest;
    } else if (tour->bound >= search->shortest) {
        return;
    } else if (search->count < search->room) {
        push(search, tour);
    } else {
        go_on(search, tour);
    }
}

static void go_on(struct search *search, const struct tour *tour)
{
    uint8_t last = tour->cities[tour->count - 1];
    search->looked_at++;
    for (uint8_t city = 0; city < CITIES; city++) {
        struct tour longer = *tour;
        if (has(tour, city))
            continue;
        longer.length += search->distance[last][city];
        longer.cities[longer.count++] = city;
        longer.bound = bound_of(search, &longer);
        take(search, &longer);
    }
}

/* All that begin with city 0 and two others: those whose number is the rank's. */
static void begin(struct search *search)
{
    int number = 0;
    search->shortest = UINT32_MAX;
    search->count = 0;
    for (uint8_t second = 1; second < CITIES; second++)
        for (uint8_t third = 1; third < CITIES; third++) {
            struct tour tour = {.count = 3, .cities = {0, second, third}};
            if (third == second || number++ % search->ranks != search->rank)
                continue;
            tour.length = search->distance[0][second] + search->distance[second][third];
            tour.bound = bound_of(search, &tour);
            take(search, &tour);
        }
}

static uint32_t find_shortest(struct search *search)
{
    uint64_t left = 1;
    begin(search);
    while (left > 0) {
        for (int i = 0; i < TURN && search->count > 0; i++) {
            struct tour tour = pop(search);
            if (tour.bound < search->shortest)
                go_on(search, &tour);
        }
        left = search->count;
        MPI_Allreduce(MPI_IN_PLACE, &search->shortest, 1, MPI_UINT32_T, MPI_MIN, MPI_COMM_WORLD);
        MPI_Allreduce(MPI_IN_PLACE, &left, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    }
    return search->shortest;
}

int main(int argc, char **argv)
{
    struct search search = {0};
    uint64_t sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &search.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &search.ranks);
    double mib = argc == 3 ? atof(argv[1]) : 0;
    long rounds = argc == 3 ? atol(argv[2]) : 0;
    search.room = (size_t)(mib * (1 << 20) / sizeof *search.heap);
    search.heap = malloc(search.room * sizeof *search.heap);
    if (search.room < CITIES * CITIES || !search.heap) {
        fprintf(stderr, "usage: travelling-salesman MIB ROUNDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (long round = 0; round < rounds; round++) {
        place_cities(&search, round);
        sum += find_shortest(&search) * (uint64_t)(round + 1);
    }
    if (search.rank == 0)
        printf("travelling-salesman: %d cities, %ld rounds, sum %llu\n", CITIES, rounds,
               (unsigned long long)sum);
    free(search.heap);
    MPI_Finalize();
    return 0;
}
