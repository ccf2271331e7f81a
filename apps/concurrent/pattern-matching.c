/*
 * pattern-matching - where in a text does a pattern end with the fewest errors? Each rank has a part of the
 * text, and for each place in it the length of the longest beginning of a pattern that ends there with one
 * wrong letter at most. Each round looks for another pattern, by the bits of a word (R. Baeza-Yates, G. H.
 * Gonnet: A New Approach to Text Searching, CACM 35(10), 1992, with mismatches).
 *
 *     pattern-matching MIB ROUNDS
 */
#include <inttypes.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LETTERS 4
#define PATTERN 48 /* letters of a pattern */

struct search {
    int rank, ranks;
    size_t count;  /* of letters in each rank */
    uint8_t *text; /* PATTERN letters of the rank before, then the rank's own */
    uint8_t *found;
    uint64_t masks[LETTERS]; /* where in the pattern a letter is */
};

static uint64_t mix(uint64_t number)
{
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
    return number ^ (number >> 31);
}

static void fill(struct search *search)
{
    uint64_t first = (uint64_t)search->rank * search->count;
    for (size_t i = 0; i < search->count; i++)
        search->text[PATTERN + i] = (uint8_t)(mix(first + i) % LETTERS);
    memset(search->text, 0, PATTERN);
    int before = search->rank > 0 ? search->rank - 1 : MPI_PROC_NULL;
    int behind = search->rank + 1 < search->ranks ? search->rank + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(search->text + search->count, PATTERN, MPI_BYTE, behind, 0, search->text, PATTERN, MPI_BYTE,
                 before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* A piece of some rank's text, with a letter changed. */
static void choose_pattern(struct search *search, long round)
{
    uint8_t pattern[PATTERN];
    uint64_t chosen = mix((uint64_t)round + 1);
    int owner = (int)(chosen % (uint64_t)search->ranks);
    if (search->rank == owner) {
        memcpy(pattern, search->text + PATTERN + chosen / 7 % (search->count - PATTERN), PATTERN);
        pattern[chosen % PATTERN] = (uint8_t)((pattern[chosen % PATTERN] + 1) % LETTERS);
    }
    MPI_Bcast(pattern, PATTERN, MPI_BYTE, owner, MPI_COMM_WORLD);
    memset(search->masks, 0, sizeof search->masks);
    for (int i = 0; i < PATTERN; i++)
        search->masks[pattern[i]] |= (uint64_t)1 << i;
}

/* Bit i: the pattern's first i+1 letters end here, in `exact` without an error, in `near` with one at most.
 */
static void look(struct search *search)
{
    const uint64_t all = ((uint64_t)1 << PATTERN) - 1;
    uint64_t exact = 0, near = 0;
    for (size_t i = 0; i < PATTERN + search->count; i++) {
        uint64_t mask = search->masks[search->text[i]], before = exact << 1 | 1;
        near = (((near << 1 | 1) & mask) | before) & all;
        exact = before & mask & all;
        if (i >= PATTERN) {
            uint8_t length = near ? (uint8_t)(64 - __builtin_clzll(near)) : 0;
            if (search->found[i - PATTERN] < length)
                search->found[i - PATTERN] = length;
        }
    }
}

static uint64_t sum(const struct search *search)
{
    uint64_t all = 0, first = (uint64_t)search->rank * search->count;
    for (size_t i = 0; i < search->count; i++)
        all += search->found[i] * (first + i + 1);
    return all;
}

int main(int argc, char **argv)
{
    struct search search = {0};
    uint64_t here, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &search.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &search.ranks);
    double mib = argc == 3 ? atof(argv[1]) : 0;
    long rounds = argc == 3 ? atol(argv[2]) : 0;
    search.count = (size_t)(mib * (1 << 20) / 2);
    search.text = malloc(search.count + PATTERN);
    search.found = calloc(search.count, 1);
    if (search.count <= PATTERN || !search.text || !search.found) {
        fprintf(stderr, "usage: pattern-matching MIB ROUNDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    fill(&search);
    for (long round = 0; round < rounds; round++) {
        choose_pattern(&search, round);
        look(&search);
    }
    here = sum(&search);
    MPI_Reduce(&here, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (search.rank == 0)
        printf("pattern-matching: %ld rounds, sum %" PRIu64 "\n", rounds, all);
    free(search.text);
    free(search.found);
    MPI_Finalize();
    return 0;
}
