/*
 * main.c - tests/sim/run: the protocol of recovery lines under random programs and random faults.
 *
 *   run --seeds N [--first SEED] [--jobs N] [--mutation NAME]    ends with "N seeds, V violations"
 *   run --seed S [--trace] [--mutation NAME]                     one seed
 *   run --list-mutations
 *
 * Exit status: 0 without violations, 1 with, 2 for bad usage.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/campaign.h"

#define MAX_JOBS 1024u

struct options {
    struct campaign campaign;
    bool is_listing;
};

static int parse(int argc, char **argv, struct options *options);
static int parse_number(const char *text, uint64_t *number);
static int parse_jobs(const char *text, uint32_t *jobs);
static void list_mutations(void);
static void print_counts(const struct counts *counts);

int main(int argc, char **argv)
{
    struct options options = {.campaign = {.seeds = 1000, .jobs = 1}};
    struct campaign_result result;

    if (parse(argc, argv, &options) < 0) {
        fprintf(stderr, "usage: run --seeds N [--first SEED] [--jobs N] [--mutation NAME]\n"
                        "       run --seed S [--trace] [--mutation NAME]\n"
                        "       run --list-mutations\n");
        return 2;
    }
    if (options.is_listing) {
        list_mutations();
        return 0;
    }
    if (campaign_run(&options.campaign, &result) < 0) {
        perror("run");
        return 2;
    }
    print_counts(&result.counts);
    printf("%lu seeds, %lu violations\n", (unsigned long)options.campaign.seeds,
           (unsigned long)result.violations);
    return result.violations > 0;
}

static void print_counts(const struct counts *counts)
{
    printf("lines: %lu committed, %lu aborted; epochs: %lu, of which %lu from a line; jobs lost beyond what "
           "the scheme survives: %lu; events: %lu\n",
           (unsigned long)counts->committed, (unsigned long)counts->aborted, (unsigned long)counts->epochs,
           (unsigned long)counts->restored, (unsigned long)counts->lost_jobs, (unsigned long)counts->events);
    printf("images that became others: %lu, refused: %lu, believed where nobody can know: %lu; no room for a "
           "copy or record: %lu; cuts of one link: %lu; records put together by nodes: %lu\n",
           (unsigned long)counts->changed, (unsigned long)counts->refused, (unsigned long)counts->believed,
           (unsigned long)counts->unkept, (unsigned long)counts->cuts, (unsigned long)counts->offered);
    printf("openings by belay run's opener: %lu, cut short: %lu, with slow writing of a record: %lu\n",
           (unsigned long)counts->opened, (unsigned long)counts->cut_short, (unsigned long)counts->slow);
    printf("records of members that took long: %lu, agents that died meanwhile: %lu, ranks ended by keepers "
           "meanwhile: on %lu nodes\n",
           (unsigned long)counts->stalled, (unsigned long)counts->stalled_ends,
           (unsigned long)counts->overdue);
    printf("parity of slots made: %lu, contributions that came again: %lu, images made again: %lu\n",
           (unsigned long)counts->folded, (unsigned long)counts->twice, (unsigned long)counts->rebuilt);
    printf("lines protected again after a restart: %lu, copies, tables and parity made for that: %lu\n",
           (unsigned long)counts->refilled, (unsigned long)counts->refilled_parts);
    printf("branches: %lu, demands between them: %lu\n", (unsigned long)counts->branches,
           (unsigned long)counts->demands);
    printf("images fetched: %lu, deltas without a base: %lu, members without ranks: %lu, fenced without an "
           "agent: %lu, ranks that failed in a drain: %lu\n",
           (unsigned long)counts->fetched, (unsigned long)counts->lacking, (unsigned long)counts->spares,
           (unsigned long)counts->fenced, (unsigned long)counts->failed);
}

static int parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        {"seeds", required_argument, NULL, 'n'},    {"first", required_argument, NULL, 'f'},
        {"seed", required_argument, NULL, 's'},     {"jobs", required_argument, NULL, 'j'},
        {"trace", no_argument, NULL, 't'},          {"mutation", required_argument, NULL, 'm'},
        {"list-mutations", no_argument, NULL, 'l'}, {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 'n' && parse_number(optarg, &options->campaign.seeds) < 0)
            return -1;
        if (option == 'f' && parse_number(optarg, &options->campaign.first) < 0)
            return -1;
        if (option == 'j' && parse_jobs(optarg, &options->campaign.jobs) < 0)
            return -1;
        if (option == 's') {
            options->campaign.seeds = 1;
            if (parse_number(optarg, &options->campaign.first) < 0)
                return -1;
        }
        options->campaign.is_tracing |= option == 't';
        options->is_listing |= option == 'l';
        if (option == 'm' && (options->campaign.mutation = mutation_find(optarg)) == MUTATION_NONE)
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

static int parse_jobs(const char *text, uint32_t *jobs)
{
    uint64_t number;

    if (parse_number(text, &number) < 0 || number == 0 || number > MAX_JOBS)
        return -1;
    *jobs = (uint32_t)number;
    return 0;
}

static void list_mutations(void)
{
    for (int i = MUTATION_NONE + 1; i < MUTATION_COUNT; i++)
        printf("%-16s %s\n", mutation_name((enum mutation)i), mutation_summary((enum mutation)i));
}
