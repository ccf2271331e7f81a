/* belay status - one job: its ranks, restarts and lines. */
#include <stdio.h>

#include "cmd/command.h"
#include "cmd/exit_codes.h"
#include "cmd/members.h"
#include "cmd/options.h"
#include "cmd/render.h"
#include "cmd/tool.h"
#include "common/util/log.h"

static const struct argp_option rows[] = {OPTION_JSON, {0}};

static const struct argp argp = {
    .options = rows,
    .parser = tool_options_parser,
    .args_doc = "[JOB]",
    .doc = "Show a job that runs, or one that has ended and was not cleaned away: its ranks, its restarts "
           "and its "
           "lines."
           "\vJOB may be left out if exactly one runs, or if there is only one.",
};

static int report(const Belay__Wire__JobStatus *job, bool is_json)
{
    if (is_json)
        return render_print_json(render_job_json(job)) ? EXIT_INTERNAL : EXIT_OK;
    render_job_text(stdout, job);
    return fflush(stdout) ? EXIT_INTERNAL : EXIT_OK;
}

/* What this host has of a job that is run from another one; NULL: nothing. */
static Belay__Wire__JobStatus *find_as_guest(const struct tool *tool, const char *job)
{
    struct tool guest;
    struct belay_error ignored;
    if (tool_open_guest(tool, &guest) < 0)
        return NULL;
    Belay__Wire__JobStatus *found = tool_find_job(&guest, job, &ignored);
    tool_close(&guest);
    return found;
}

static int status(int argc, char **argv)
{
    struct tool_options options;
    struct tool tool;
    struct belay_error err = {0};
    int code;
    if (tool_options_parse(&argp, argc, argv, false, &options))
        return EXIT_USAGE;
    if (tool_open(&tool))
        return EXIT_NO_AGENT;
    tool_turn(&tool, options.job);
    Belay__Wire__JobStatus *job = tool_find_job(&tool, options.job, &err);
    if (job)
        members_add_status(&tool, job);
    else
        job = find_as_guest(&tool, options.job);
    if (job) {
        code = report(job, options.is_json);
    } else {
        log_error("%s", err.text);
        code = tool_exit_code(&err);
    }
    job_status_free(job);
    tool_close(&tool);
    return code;
}

const struct command command_status = {
    .name = "status",
    .summary = "show one job: ranks, restarts, lines",
    .argp = &argp,
    .run = status,
};
