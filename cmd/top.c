/* belay top - one job, again and again while it runs: what of each rank's image is there. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmd/command.h"
#include "cmd/exit_codes.h"
#include "cmd/job_view.h"
#include "cmd/options.h"
#include "cmd/render.h"
#include "common/util/duration.h"
#include "common/util/escape.h"
#include "common/util/log.h"
#include "common/wire/job_name.h"
#include "common/wire/states.h"

#define DELAY_MS 1000
#define DELAY_MIN_MS 100
#define DELAY_MAX_MS 3600000
#define CLEAR "\033[H\033[2J"

/* Words of "[JOB] [--delay TIME] [--count N] [--json]". */
struct top_options {
    struct tool_options tool; /* the first, for tool_options_parser() */
    const char *delay, *count;
    uint64_t delay_ms, rounds; /* 0: until the job ends */
};

/* What the look before has shown. */
static struct {
    char job[JOB_NAME_BYTES];
    bool has_shown, is_over;
} seen;

static const struct argp_option rows[] = {
    OPTION_JSON,
    {"delay", 'd', "TIME", 0, "Time between two looks, 100ms to 1h (default: 1s)", 0},
    {"count", 'n', "N", 0, "End after so many looks (default: when the job ends)", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct top_options *options = state->input;
    switch (key) {
    case 'd':
        options->delay = arg;
        return 0;
    case 'n':
        options->count = arg;
        return 0;
    default:
        return tool_options_parser(key, arg, state);
    }
}

static const struct argp argp = {
    .options = rows,
    .parser = parse,
    .args_doc = "[JOB]",
    .doc =
        "Show a job again and again while it runs: its newest lines, its ranks, and of ranks that run while "
        "their images come, what is there."
        "\vJOB may be left out if exactly one runs. On a terminal each look replaces the one before.",
};

static int read_values(struct top_options *options, const char *command)
{
    struct belay_error err;
    char *rest = "";
    options->delay_ms = DELAY_MS;
    if (options->delay && (duration_parse(options->delay, &options->delay_ms, &err) < 0 ||
                           options->delay_ms < DELAY_MIN_MS || options->delay_ms > DELAY_MAX_MS)) {
        log_error("%s: --delay '%s' is not a time from 100ms to 1h", command, options->delay);
        return -1;
    }
    errno = 0;
    if (options->count)
        options->rounds = strtoull(options->count, &rest, 10);
    if (options->count && (errno || *rest || options->count[0] < '1' || options->count[0] > '9')) {
        log_error("%s: --count '%s' is not a number of looks", command, options->count);
        return -1;
    }
    return 0;
}

/* ---- one look ---- */

static void print_summary(const Belay__Wire__JobStatus *job, enum job_state state)
{
    const Belay__Wire__LineStatus *line = job->n_lines > 0 ? job->lines[job->n_lines - 1] : NULL;
    escape_print(stdout, job->job);
    printf(": %s, epoch %" PRIu32 ", newest committed line %" PRIu64 ", images %.1f MiB\n",
           job_state_name(state), job->epoch, job->newest_line, render_mib(job->held_bytes));
    if (line)
        printf("  line %" PRIu64 " %s: dirty %.1f of %.1f MiB, pause %.1f ms, total %.1f ms\n", line->line,
               line_state_name(line_state_from(line->line_state, line->state)), render_mib(line->dirty_bytes),
               render_mib(line->image_bytes), line->pause_ms, line->total_ms);
}

static void print_rank(const Belay__Wire__NodeStatus *node, const Belay__Wire__RankStatus *rank)
{
    const Belay__Wire__LoadStatus *load = rank->loading;
    printf("  %6" PRIu32 " %8" PRIu32, rank->rank, rank->pid);
    if (load) {
        printf(" %10.1f %10.1f %8" PRIu64 " %9.1f", render_mib(load->here_bytes), render_mib(load->bytes),
               load->faults, load->rate / RENDER_MIB);
        if (load->to_go_ms > 0)
            printf(" %8.1f", load->to_go_ms / 1e3);
        else
            printf(" %8s", "-");
    } else {
        printf(" %10s %10s %8s %9s %8s", "all", "-", "-", "-", "-");
    }
    printf("  %" PRIu32 " ", node->number);
    escape_print(stdout, node->node);
    putchar('\n');
}

static int show(const Belay__Wire__JobStatus *job, bool is_json)
{
    enum job_state state = job_state_from(job->job_state, job->state);
    snprintf(seen.job, sizeof seen.job, "%s", job->job);
    seen.is_over = state >= JOB_STATE_FINISHED;
    if (!is_json && isatty(STDOUT_FILENO))
        fputs(CLEAR, stdout);
    else if (!is_json && seen.has_shown)
        putchar('\n');
    seen.has_shown = true;
    if (is_json)
        return render_print_json(render_job_json(job)) || fflush(stdout) ? EXIT_INTERNAL : EXIT_OK;
    print_summary(job, state);
    printf("  %6s %8s %10s %10s %8s %9s %8s  %s\n", "rank", "pid", "here MiB", "of MiB", "waits", "MiB/s",
           "s to go", "node");
    for (size_t i = 0; i < job->n_nodes; i++)
        for (size_t k = 0; k < job->nodes[i]->n_ranks; k++)
            print_rank(job->nodes[i], job->nodes[i]->ranks[k]);
    return fflush(stdout) ? EXIT_INTERNAL : EXIT_OK;
}

static int top(int argc, char **argv)
{
    struct top_options options = {0};
    int code;
    if (tool_options_parse(&argp, argc, argv, false, &options.tool) || read_values(&options, argv[0]))
        return EXIT_USAGE;
    const char *name = options.tool.job;
    for (uint64_t round = 1;; round++) {
        code = job_view_once(name, options.tool.is_json, show);
        if (code != EXIT_OK || seen.is_over || round == options.rounds)
            return code;
        name = seen.job;
        poll(NULL, 0, (int)options.delay_ms);
    }
}

const struct command command_top = {
    .name = "top",
    .summary = "show one job again and again while it runs",
    .argp = &argp,
    .run = top,
    .takes_slurm_job = true,
};
