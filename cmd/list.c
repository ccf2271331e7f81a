/* belay list - jobs that run, and those that have ended of late. */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cmd/command.h"
#include "cmd/exit_codes.h"
#include "cmd/options.h"
#include "cmd/render.h"
#include "cmd/tool.h"
#include "common/util/log.h"

#define ENDED_LISTED 10 /* of those that have ended and hold nothing, the newest */

static const struct argp_option rows[] = {
    OPTION_JSON,
    {"all", 'a', NULL, 0, "List all jobs that have ended, not only the last ones", 0},
    {0},
};

static const struct argp argp = {
    .options = rows,
    .parser = tool_options_parser,
    .doc = "List the jobs that run, those whose images are kept for 'belay restart', and the last ones that "
           "have ended otherwise. --json lists all.",
};

static json_t *render_jobs_json(const struct jobs *jobs)
{
    json_t *items = json_array();
    for (size_t i = 0; i < jobs->count; i++)
        json_array_append_new(items, render_job_json(jobs->items[i]));
    return json_pack("{s:o}", "jobs", items);
}

/* When the job has ended, in nanoseconds: the age of its record. INT64_MAX: it is to be listed anyhow. */
static int64_t ended_ns(const struct tool *tool, const Belay__Wire__JobStatus *status)
{
    char path[PATH_MAX + 128];
    struct stat st;
    snprintf(path, sizeof path, "%s/jobs/%s.status", tool->rundir, status->job);
    if (status->held_bytes > 0 || stat(path, &st)) /* one that runs has no record */
        return INT64_MAX;
    return st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec;
}

static int compare_newest_first(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;
    return (*a < *b) - (*a > *b);
}

/* The end of the oldest job that is listed. */
static int64_t oldest_listed(const int64_t *ends, size_t count)
{
    int64_t *sorted = calloc(count + 1, sizeof *sorted), oldest = INT64_MIN;
    size_t fixed = 0;
    if (!sorted)
        return INT64_MIN;
    for (size_t i = 0; i < count; i++)
        sorted[i] = ends[i];
    qsort(sorted, count, sizeof *sorted, compare_newest_first);
    while (fixed < count && sorted[fixed] == INT64_MAX)
        fixed++;
    if (count - fixed > ENDED_LISTED)
        oldest = sorted[fixed + ENDED_LISTED - 1];
    free(sorted);
    return oldest;
}

static void print_rows(const struct tool *tool, const struct jobs *jobs, bool is_all)
{
    int64_t *ends = calloc(jobs->count + 1, sizeof *ends);
    size_t left_out = 0;
    for (size_t i = 0; ends && i < jobs->count; i++)
        ends[i] = ended_ns(tool, jobs->items[i]);
    int64_t oldest = !ends || is_all ? INT64_MIN : oldest_listed(ends, jobs->count);
    for (size_t i = 0; i < jobs->count; i++) {
        if (ends && ends[i] < oldest)
            left_out++;
        else
            render_list_row(stdout, jobs->items[i]);
    }
    if (left_out)
        printf("%zu more that ended earlier: belay list --all\n", left_out);
    free(ends);
}

static int report(const struct tool *tool, const struct jobs *jobs, const struct tool_options *options)
{
    if (options->is_json)
        return render_print_json(render_jobs_json(jobs)) ? EXIT_INTERNAL : EXIT_OK;
    if (jobs->count > 0)
        render_list_header(stdout);
    print_rows(tool, jobs, options->is_all);
    return fflush(stdout) ? EXIT_INTERNAL : EXIT_OK;
}

static int list(int argc, char **argv)
{
    struct tool_options options;
    struct tool tool;
    struct jobs jobs;
    struct belay_error err = {0};
    int code;
    if (tool_options_parse(&argp, argc, argv, false, &options))
        return EXIT_USAGE;
    if (tool_open(&tool))
        return EXIT_NO_AGENT;
    if (tool_list_jobs(&tool, &jobs, &err) == 0) {
        code = report(&tool, &jobs, &options);
        jobs_release(&jobs);
    } else {
        log_error("%s", err.text);
        code = tool_exit_code(&err);
    }
    tool_close(&tool);
    return code;
}

const struct command command_list = {
    .name = "list",
    .summary = "list the jobs that run and the last that have ended",
    .argp = &argp,
    .run = list,
};
