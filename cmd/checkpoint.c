/* belay checkpoint - take a line now. */
#include <errno.h>
#include <stdio.h>

#include "cmd/command.h"
#include "cmd/exit_codes.h"
#include "cmd/members.h"
#include "cmd/options.h"
#include "cmd/render.h"
#include "cmd/tool.h"
#include "common/util/log.h"
#include "common/wire/states.h"

static const struct argp_option rows[] = {OPTION_JSON, {0}};

static const struct argp argp = {
    .options = rows,
    .parser = tool_options_parser,
    .args_doc = "[JOB]",
    .doc = "Take a recovery line now and return when it is committed."
           "\vJOB may be left out if exactly one runs. The exit code is 0 only if the line is committed.",
};

/* Show the line; the exit code says whether it was committed. */
static int report(const Belay__Wire__LineDone *done, bool is_json)
{
    const Belay__Wire__LineStatus *line = done->line;
    bool is_committed = line && line_state_from(line->line_state, line->state) == LINE_STATE_COMMITTED;
    if (line && is_json && render_print_json(render_line_json(line)))
        return EXIT_INTERNAL;
    if (!is_committed) {
        log_error("%s: no line was committed: %s", done->job,
                  line && line->reason[0] ? line->reason : "the agent gives no reason");
        return EXIT_NO_LINE;
    }
    if (!is_json)
        render_line_text(stdout, line);
    return fflush(stdout) ? EXIT_INTERNAL : EXIT_OK;
}

static int take_line(const struct tool *tool, const struct tool_options *options)
{
    struct belay_error err = {0};
    int code = tool_require_agent(tool, options->job);
    if (code != EXIT_OK)
        return code;
    Belay__Wire__Reply *reply = members_call(tool, options->job, call_checkpoint, &err);
    if (reply) {
        code = report(reply->line_done, options->is_json);
        calls_free(reply);
        return code;
    }
    if (err.code == EREMOTE) { /* and that node has just been lost */
        log_error("no line was committed: %s, which does not answer", err.text);
        return EXIT_NO_LINE;
    }
    log_error("%s", err.text);
    return tool_exit_code(&err);
}

static int checkpoint(int argc, char **argv)
{
    return tool_run(&argp, argc, argv, false, take_line);
}

const struct command command_checkpoint = {
    .name = "checkpoint",
    .summary = "take a line of a running job now",
    .argp = &argp,
    .run = checkpoint,
    .takes_slurm_job = true,
};
