/*
 * main.c - tests/sim/scale/scale: what a line and a restart cost on up to 10,000 nodes, counted with the
 * machines that ship.
 *
 *   scale [--largest NODES] [--ranks N] [--lines N] [--arity N]
 *
 * Prints tables, and for each column the exponent of the fitted power of the number of nodes.
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "coord/tree.h"
#include "tests/sim/scale/lines.h"
#include "tests/sim/scale/opening.h"

#define MAX_SIZES 8u
#define MAX_COLUMNS 12u
#define OPENING_MAX_BYTES 8e9 /* of memory that the arbiter takes: larger jobs are left out */

struct options {
    struct lines_job job; /* nodes: not used */
    uint32_t largest;     /* number of nodes */
};

struct table {
    const char *title;
    const char *const *columns;
    uint32_t count, rows;
    double nodes[MAX_SIZES], values[MAX_SIZES][MAX_COLUMNS];
};

static const uint32_t sizes[] = {16, 64, 256, 1000, 4000, 10000};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static int parse(int argc, char **argv, struct options *options);
static void print_head(const struct table *table);
static void print_row(const struct table *table, uint32_t row);
static void print_fit(const struct table *table);
static double fit(const struct table *table, uint32_t column);

static void run_lines(const struct options *options)
{
    static const char *const columns[] = {"messages", "largest",    "bytes",     "largest",
                                          "chain",    "time",       "versions",  "links",
                                          "largest",  "busiest ms", "busiest B", "member B"};
    struct table table = {.title = "a line, by node", .columns = columns, .count = 12};

    print_head(&table);
    for (uint32_t i = 0; i < SIZES && sizes[i] <= options->largest; i++) {
        struct lines_job job = options->job;
        struct lines_cost cost;
        double *row = table.values[table.rows];

        job.nodes = sizes[i];
        lines_run(&job, &cost);
        table.nodes[table.rows] = sizes[i];
        row[0] = cost.messages_mean;
        row[1] = cost.messages_largest;
        row[2] = cost.bytes_mean;
        row[3] = cost.bytes_largest;
        row[4] = cost.chain;
        row[5] = cost.time;
        row[6] = cost.versions;
        row[7] = cost.links_mean;
        row[8] = cost.links_largest;
        row[9] = cost.busiest_ms;
        row[10] = cost.machine_bytes;
        row[11] = cost.watch_bytes;
        print_row(&table, table.rows++);
    }
    print_fit(&table);
}

static void run_openings(const struct options *options)
{
    static const char *const columns[] = {"messages", "bytes",      "told B",   "decide ms",
                                          "tell ms",  "arbiter ms", "arbiter B"};
    struct table table = {
        .title = "an epoch after the loss of a node, at the arbiter", .columns = columns, .count = 7};
    struct opening_cost cost = {0};

    print_head(&table);
    for (uint32_t i = 0; i < SIZES && sizes[i] <= options->largest; i++) {
        double *row = table.values[table.rows];
        double growth = i > 0 ? (double)sizes[i] / sizes[i - 1] : 1;

        if (cost.arbiter_bytes * growth * growth > OPENING_MAX_BYTES) {
            printf("%7u  left out: the arbiter would take too much memory\n", sizes[i]);
            continue;
        }
        opening_run(sizes[i], options->job.per_node, &cost);
        table.nodes[table.rows] = sizes[i];
        row[0] = cost.messages;
        row[1] = cost.bytes;
        row[2] = cost.told_bytes;
        row[3] = cost.decide_ms;
        row[4] = cost.tell_ms;
        row[5] = cost.arbiter_ms;
        row[6] = cost.arbiter_bytes;
        print_row(&table, table.rows++);
    }
    print_fit(&table);
}

int main(int argc, char **argv)
{
    struct options options = {.job = {.per_node = 10, .lines = 2, .arity = TREE_ARITY}, .largest = 10000};

    if (parse(argc, argv, &options) < 0) {
        fprintf(stderr, "usage: scale [--largest NODES] [--ranks N] [--lines N] [--arity N]\n");
        return 2;
    }
    run_lines(&options);
    run_openings(&options);
    return 0;
}

static int parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {{"largest", required_argument, NULL, 'm'},
                                          {"ranks", required_argument, NULL, 'r'},
                                          {"lines", required_argument, NULL, 'l'},
                                          {"arity", required_argument, NULL, 'a'},
                                          {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        unsigned long number = option == '?' ? 0 : strtoul(optarg, NULL, 10);

        if (number == 0 || number > 100000)
            return -1;
        *(option == 'm'   ? &options->largest
          : option == 'r' ? &options->job.per_node
          : option == 'l' ? &options->job.lines
                          : &options->job.arity) = (uint32_t)number;
    }
    return optind == argc ? 0 : -1;
}

static void print_head(const struct table *table)
{
    printf("%s\n%7s", table->title, "nodes");
    for (uint32_t i = 0; i < table->count; i++)
        printf(" %10s", table->columns[i]);
    printf("\n");
}

static void print_row(const struct table *table, uint32_t row)
{
    printf("%7.0f", table->nodes[row]);
    for (uint32_t i = 0; i < table->count; i++)
        printf(table->values[row][i] < 100 ? " %10.2f" : " %10.0f", table->values[row][i]);
    printf("\n");
    fflush(stdout);
}

static void print_fit(const struct table *table)
{
    printf("%7s", "n^");
    for (uint32_t i = 0; i < table->count; i++)
        printf(" %10.2f", fit(table, i));
    printf("\n\n");
}

/* The slope of the straight line through the logarithms that has the least squares. */
static double fit(const struct table *table, uint32_t column)
{
    double x = 0, y = 0, xx = 0, xy = 0, n = table->rows;

    for (uint32_t i = 0; i < table->rows; i++) {
        double at = log(table->nodes[i]), value = log(table->values[i][column] + 1e-9);

        x += at;
        y += value;
        xx += at * at;
        xy += at * value;
    }
    return table->rows > 1 ? (n * xy - x * y) / (n * xx - x * x) : 0;
}
