/* belay status - one job: its ranks, restarts and lines. */
#include <stdio.h>

#include "cmd/command.h"
#include "cmd/exit_codes.h"
#include "cmd/job_view.h"
#include "cmd/options.h"
#include "cmd/render.h"

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

static int status(int argc, char **argv)
{
    return job_view(&argp, argc, argv, report);
}

const struct command command_status = {
    .name = "status",
    .summary = "show one job: ranks, restarts, lines",
    .argp = &argp,
    .run = status,
    .takes_slurm_job = true,
};
