/* belay stop - end a running job for good. */
#include "cmd/command.h"
#include "cmd/exit_codes.h"
#include "cmd/members.h"
#include "cmd/options.h"
#include "cmd/tool.h"
#include "common/util/log.h"

static const struct argp argp = {
    .parser = tool_options_parser,
    .args_doc = "JOB",
    .doc = "End a running job; it is not restarted and its images are dropped.",
};

static int stop_job(const struct tool *tool, const struct tool_options *options)
{
    struct belay_error err = {0};
    int code = tool_require_agent(tool, options->job);
    if (code != EXIT_OK)
        return code;
    Belay__Wire__Reply *reply = members_call(tool, options->job, call_stop, &err);
    if (reply) {
        calls_free(reply);
        return EXIT_OK;
    }
    log_error("%s", err.text);
    return tool_exit_code(&err);
}

static int stop(int argc, char **argv)
{
    return tool_run(&argp, argc, argv, true, stop_job);
}

const struct command command_stop = {
    .name = "stop",
    .summary = "end a running job for good",
    .argp = &argp,
    .run = stop,
    .takes_slurm_job = true,
};
