/*
 * main.c - tests/sim/run: the protocol of recovery lines under random programs and random faults.
 *
 *   run --seeds N [--first SEED] [--mutation NAME]    ends with "N seeds, V violations"
 *   run --seed S [--trace] [--mutation NAME]          one seed
 *   run --list-mutations
 *
 * Exit status: 0 without violations, 1 with, 2 for bad usage.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/world.h"

#define PRINTED_FAILURES 20u

struct options {
    uint64_t first, seeds;
    enum mutation mutation;
    bool is_tracing, is_listing;
};

static int parse(int argc, char **argv, struct options *options);
static int parse_number(const char *text, uint64_t *number);
static void list_mutations(void);
static uint64_t run_seeds(struct world *world, const struct options *options, struct counts *counts);

int main(int argc, char **argv)
{
    struct options options = {.seeds = 1000};
    struct counts counts = {0};
    struct world *world;
    uint64_t violations;

    if (parse(argc, argv, &options) < 0) {
        fprintf(stderr, "usage: run --seeds N [--first SEED] | --seed S [--trace]  [--mutation NAME]\n"
                        "       run --list-mutations\n");
        return 2;
    }
    if (options.is_listing) {
        list_mutations();
        return 0;
    }
    world = calloc(1, sizeof(*world));
    if (!world) {
        perror("run");
        return 2;
    }
    violations = run_seeds(world, &options, &counts);
    world_destroy(world);
    free(world);
    printf("lines: %lu committed, %lu aborted; epochs: %lu, of which %lu from a line; jobs lost beyond what "
           "the scheme survives: %lu; events: %lu\n",
           (unsigned long)counts.committed, (unsigned long)counts.aborted, (unsigned long)counts.epochs,
           (unsigned long)counts.restored, (unsigned long)counts.lost_jobs, (unsigned long)counts.events);
    printf("images fetched: %lu, deltas without a base: %lu, members without ranks: %lu, fenced without an "
           "agent: %lu\n",
           (unsigned long)counts.fetched, (unsigned long)counts.lacking, (unsigned long)counts.spares,
           (unsigned long)counts.fenced);
    printf("%lu seeds, %lu violations\n", (unsigned long)options.seeds, (unsigned long)violations);
    return violations > 0;
}

static int parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        {"seeds", required_argument, NULL, 'n'},
        {"first", required_argument, NULL, 'f'},
        {"seed", required_argument, NULL, 's'},
        {"trace", no_argument, NULL, 't'},
        {"mutation", required_argument, NULL, 'm'},
        {"list-mutations", no_argument, NULL, 'l'},
        {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 'n' && parse_number(optarg, &options->seeds) < 0)
            return -1;
        if (option == 'f' && parse_number(optarg, &options->first) < 0)
            return -1;
        if (option == 's') {
            options->seeds = 1;
            if (parse_number(optarg, &options->first) < 0)
                return -1;
        }
        options->is_tracing |= option == 't';
        options->is_listing |= option == 'l';
        if (option == 'm' && (options->mutation = mutation_find(optarg)) == MUTATION_NONE)
            return -1;
        if (option == '?')
            return -1;
    }
    return optind == argc ? 0 : -1;
}

static int parse_number(const char *text, uint64_t *number)
{
    char *end;

    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno || end == text || *end || text[0] == '-' ? -1 : 0;
}

static void list_mutations(void)
{
    for (int i = MUTATION_NONE + 1; i < MUTATION_COUNT; i++)
        printf("%-16s %s\n", mutation_name((enum mutation)i), mutation_summary((enum mutation)i));
}

static uint64_t run_seeds(struct world *world, const struct options *options, struct counts *counts)
{
    uint64_t violations = 0;

    for (uint64_t seed = options->first; seed < options->first + options->seeds; seed++) {
        if (world_run(world, seed, options->mutation, options->is_tracing, counts))
            continue;
        if (++violations <= PRINTED_FAILURES)
            printf("seed %lu, %.3f ms: %s\n", (unsigned long)seed, (double)world->now_us / 1000,
                   world->violation);
    }
    if (violations > PRINTED_FAILURES)
        printf("... and %lu more\n", (unsigned long)(violations - PRINTED_FAILURES));
    return violations;
}
