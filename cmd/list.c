/* belay list - all jobs, running and ended. */
#include <stdio.h>

#include "cmd/command.h"
#include "cmd/exit_codes.h"
#include "cmd/options.h"
#include "cmd/render.h"
#include "cmd/tool.h"
#include "common/util/log.h"

static const struct argp_option rows[] = {OPTION_JSON, {0}};

static const struct argp argp = {
    .options = rows,
    .parser = tool_options_parser,
    .doc = "List the jobs that run and those that have ended and were not cleaned away.",
};

static json_t *render_jobs_json(const struct jobs *jobs)
{
    json_t *items = json_array();
    for (size_t i = 0; i < jobs->count; i++)
        json_array_append_new(items, render_job_json(jobs->items[i]));
    return json_pack("{s:o}", "jobs", items);
}

static int report(const struct jobs *jobs, bool is_json)
{
    if (is_json)
        return render_print_json(render_jobs_json(jobs)) ? EXIT_INTERNAL : EXIT_OK;
    if (jobs->count > 0)
        render_list_header(stdout);
    for (size_t i = 0; i < jobs->count; i++)
        render_list_row(stdout, jobs->items[i]);
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
        code = report(&jobs, options.is_json);
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
    .summary = "list all jobs, running and ended",
    .argp = &argp,
    .run = list,
};
