/*
 * heat-input - make an input file for heat: a random field and random sources.
 */
#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "apps/heat/file.h"

#define MAX_SIDE (1 << 20)

static const char help_text[] = "usage: heat-input [options] FILE\n"
                                "Write an initial field and sources for heat to the HDF5 file FILE.\n"
                                "\n"
                                "  -x, --nx N        cells from west to east (default 512)\n"
                                "  -y, --ny N        cells from north to south (default 512)\n"
                                "  -s, --seed N      of the random numbers (default 1)\n"
                                "  -k, --sources K   number of heat sources (default 4)\n"
                                "  -h, --help        this text\n";

static const struct option long_options[] = {
    {"nx", required_argument, NULL, 'x'},   {"ny", required_argument, NULL, 'y'},
    {"seed", required_argument, NULL, 's'}, {"sources", required_argument, NULL, 'k'},
    {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0},
};

struct request {
    long nx, ny, seed, sources;
    const char *path;
};

/* splitmix64; a number in 0 .. 1. */
static double draw(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1.0p-53;
}

static int parse_number(const char *text, long least, long most, long *number)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most)
        return -1;
    *number = value;
    return 0;
}

static int set_option(int letter, const char *value, struct request *request)
{
    switch (letter) {
    case 'x':
        return parse_number(value, 1, MAX_SIDE, &request->nx);
    case 'y':
        return parse_number(value, 1, MAX_SIDE, &request->ny);
    case 's':
        return parse_number(value, 0, INT32_MAX, &request->seed);
    case 'k':
        return parse_number(value, 0, 1000000, &request->sources);
    }
    return -1;
}

static int fail(const char *what)
{
    fprintf(stderr, "heat-input: %s\n", what);
    return -1;
}

static int parse(int argc, char **argv, struct request *request)
{
    *request = (struct request){.nx = 512, .ny = 512, .seed = 1, .sources = 4};
    int letter;
    while ((letter = getopt_long(argc, argv, "x:y:s:k:h", long_options, NULL)) != -1) {
        if (letter == 'h') {
            fputs(help_text, stdout);
            exit(EXIT_SUCCESS);
        }
        if (letter == '?')
            return fail("try --help"); /* getopt has said what is wrong */
        if (set_option(letter, optarg, request))
            return fail("a number is out of range (try --help)");
    }
    if (optind != argc - 1)
        return fail("give one FILE (try --help)");
    request->path = argv[optind];
    return 0;
}

static int make_problem(const struct request *request, struct problem *problem)
{
    uint64_t random = (uint64_t)request->seed;
    size_t cells = (size_t)request->nx * request->ny;
    *problem = (struct problem){.nx = (int)request->nx, .ny = (int)request->ny, .diffusivity = 1.0};
    problem->source_count = (int)request->sources;
    problem->field = malloc(cells * sizeof(double));
    problem->sources = malloc((request->sources + 1) * sizeof(struct source));
    if (!problem->field || !problem->sources)
        return fail("out of memory");
    for (int i = 0; i < problem->source_count; i++) {
        double x = draw(&random), y = draw(&random), radius = 0.02 + 0.08 * draw(&random);
        problem->sources[i] = (struct source){x, y, radius, 50 * (draw(&random) - 0.3)};
    }
    for (size_t i = 0; i < cells; i++)
        problem->field[i] = draw(&random);
    return 0;
}

int main(int argc, char **argv)
{
    struct request request;
    struct problem problem;
    char text[512];
    if (parse(argc, argv, &request))
        return 2;
    int result = make_problem(&request, &problem);
    if (result == 0 && (result = problem_write(request.path, &problem, text, sizeof(text))))
        fail(text);
    problem_destroy(&problem);
    return result ? EXIT_FAILURE : EXIT_SUCCESS;
}
