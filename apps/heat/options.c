#include "apps/heat/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static const char help_text[] =
    "usage: mpirun -n N heat --input FILE [options]\n"
    "Solve the 2-D heat equation with sources on the unit square, boundary held at zero.\n"
    "\n"
    "  -i, --input FILE         HDF5 file made by heat-input (initial field, sources)\n"
    "  -n, --steps N            time steps to take (default 1000)\n"
    "  -s, --snapshot-every K   write PREFIX-STEP.h5 every K steps (default 0: never)\n"
    "  -o, --output PREFIX      where snapshots go (default heat)\n"
    "  -r, --report-every N     a progress line every N steps (default 0: never)\n"
    "  -t, --trace FILE         append \"PID STEP SECONDS\" to FILE after each step\n"
    "  -w, --wait-for FILE      after half of the steps, wait until FILE exists\n"
    "  -h, --help               this text\n";

static const struct option long_options[] = {
    {"input", required_argument, NULL, 'i'},
    {"steps", required_argument, NULL, 'n'},
    {"snapshot-every", required_argument, NULL, 's'},
    {"output", required_argument, NULL, 'o'},
    {"report-every", required_argument, NULL, 'r'},
    {"trace", required_argument, NULL, 't'},
    {"wait-for", required_argument, NULL, 'w'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static enum options_result wrong(int is_speaker, const char *what, const char *value)
{
    if (is_speaker)
        fprintf(stderr, "heat: %s%s%s (try --help)\n", what, *value ? ": " : "", value);
    return OPTIONS_WRONG;
}

static int parse_count(const char *text, long *count)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < 0)
        return -1;
    *count = value;
    return 0;
}

static int set_option(int letter, const char *value, struct options *options)
{
    switch (letter) {
    case 'i':
        options->input = value;
        return 0;
    case 'o':
        options->output = value;
        return 0;
    case 't':
        options->trace = value;
        return 0;
    case 'w':
        options->wait_for = value;
        return 0;
    case 'n':
        return parse_count(value, &options->steps);
    case 's':
        return parse_count(value, &options->snapshot_every);
    case 'r':
        return parse_count(value, &options->report_every);
    }
    return -1;
}

enum options_result options_parse(int argc, char **argv, int is_speaker, struct options *options)
{
    *options = (struct options){.output = "heat", .steps = 1000};
    opterr = 0; /* one message from one rank, not getopt's from each */
    for (;;) {
        int letter = getopt_long(argc, argv, ":i:n:s:o:r:t:w:h", long_options, NULL);
        if (letter == -1)
            break;
        if (letter == 'h') {
            if (is_speaker)
                fputs(help_text, stdout);
            return OPTIONS_HELP;
        }
        if (letter == ':')
            return wrong(is_speaker, "option needs a value", argv[optind - 1]);
        if (letter == '?')
            return wrong(is_speaker, "unknown option", argv[optind - 1]);
        if (set_option(letter, optarg, options))
            return wrong(is_speaker, "not a number of steps", optarg);
    }
    if (optind < argc)
        return wrong(is_speaker, "unexpected argument", argv[optind]);
    if (!options->input)
        return wrong(is_speaker, "--input FILE is needed", "");
    return OPTIONS_RUN;
}
