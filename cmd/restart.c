/* belay restart - go on with an ended job from its newest committed line. */
#include "cmd/command.h"
#include "cmd/exit_codes.h"
#include "cmd/options.h"
#include "cmd/supervise.h"
#include "common/util/log.h"

struct restart_options {
    const char *job;
    char **command; /* NULL: the recorded launch line */
};

static error_t parser(int key, char *arg, struct argp_state *state)
{
    struct restart_options *options = state->input;
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    if (!options->job) {
        options->job = arg;
    } else {
        options->command = state->argv + state->next - 1;
        state->next = state->argc;
    }
    return 0;
}

static const struct argp argp = {
    .parser = parser,
    .args_doc = "JOB [-- mpirun [options] PROGRAM [args]]",
    .doc = "Restart an ended job from the newest committed line that the agent holds, supervised as by "
           "'belay run'."
           "\vWithout a launch line the recorded one is used, in the recorded directory and environment.",
};

static int restart(int argc, char **argv)
{
    struct restart_options options = {0};
    struct belay_error err = {0};
    if (options_parse(&argp, argc, argv, &options))
        return EXIT_USAGE;
    if (!options.job) {
        log_error("restart: which job? ('belay list' shows them)");
        return EXIT_USAGE;
    }
    if (job_name_check(options.job, &err)) {
        log_error("%s", err.text);
        return EXIT_USAGE;
    }
    const struct job_plan plan = {.name = options.job, .argv = options.command, .is_restart = true};
    return supervise(&plan);
}

const struct command command_restart = {
    .name = "restart",
    .summary = "go on with an ended job from its newest line",
    .argp = &argp,
    .run = restart,
};
