/* belay restart - go on with an ended job from its newest committed line. */
#include <errno.h>

#include "cmd/command.h"
#include "cmd/exit_codes.h"
#include "cmd/launch_options.h"
#include "cmd/options.h"
#include "cmd/supervise.h"
#include "common/util/log.h"
#include "common/wire/job_name.h"
#include "common/wire/settings.h"

struct restart_options {
    struct launch_options launch;
    const char *job;
    char **command; /* NULL: the recorded launch line */
    bool leaves_files;
    const char *archive; /* NULL: from memory */
};

enum { KEY_LEAVE_FILES = OPTION_KEY + CONF_END, KEY_FROM }; /* beyond those of the options of a launch */

static const struct argp_option rows[] = {
    {.name = "leave-files",
     .key = KEY_LEAVE_FILES,
     .doc = "Go on although files cannot be put back to what they were: they stay as they are"},
    {.name = "from",
     .key = KEY_FROM,
     .arg = "DIR",
     .doc = "Go on from a line that --archive has written below DIR: the newest one of the only job there, "
            "or of "
            "DIR/JOB, or DIR/JOB/line-N; JOB is left out then, or names the job of the archive"},
    {0}};

/* What stands behind "--" is the launch line. */
static bool is_behind_dashes(const struct argp_state *state)
{
    return state->quoted > 0 && state->next - 1 >= state->quoted;
}

static error_t parser(int key, char *arg, struct argp_state *state)
{
    struct restart_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->launch;
        return 0;
    case KEY_LEAVE_FILES:
        options->leaves_files = true;
        return 0;
    case KEY_FROM:
        options->archive = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (!options->job && !(options->archive && is_behind_dashes(state))) {
            options->job = arg;
            return 0;
        }
        options->command = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{.argp = &launch_options_argp}, {0}};

static const struct argp argp = {
    .options = rows,
    .parser = parser,
    .children = children,
    .args_doc = "JOB [-- mpirun [options] PROGRAM [args]]",
    .doc =
        "Restart an ended job from the newest committed line that the agent holds, supervised as by 'belay "
        "run'."
        "\vWithout a launch line the recorded one is used, in the recorded directory and environment. "
        "Settings that are not given are the recorded ones; where files are kept (--undo-dir) cannot change.",
};

static int make_plan(const struct restart_options *options, struct job_plan *plan, struct belay_error *err)
{
    *plan = (struct job_plan){.name = options->job,
                              .argv = options->command,
                              .settings = BELAY__WIRE__JOB_SETTINGS__INIT,
                              .is_restart = true,
                              .leaves_files = options->leaves_files,
                              .archive = options->archive};
    if (!plan->name && !plan->archive)
        return belay_error_set(err, EINVAL, "restart: which job? ('belay list' shows them)");
    if (plan->name && job_name_check(plan->name, err))
        return -1;
    if (launch_options_check_line(plan->argv, err))
        return -1;
    if (halt_read(&plan->halt, options->launch.texts, err) < 0)
        return -1;
    return settings_read(&plan->settings, options->launch.texts, false, err);
}

static int restart(int argc, char **argv)
{
    struct restart_options options = {0};
    struct belay_error err = {0};
    struct job_plan plan;
    if (options_parse(&argp, argc, argv, &options))
        return EXIT_USAGE;
    if (make_plan(&options, &plan, &err)) {
        log_error("%s", err.text);
        return EXIT_USAGE;
    }
    int code = supervise(&plan);
    settings_release(&plan.settings);
    return code;
}

const struct command command_restart = {
    .name = "restart",
    .summary = "go on with an ended job from its newest line",
    .argp = &argp,
    .run = restart,
};
