/* belay run - launch a job and bring it back when it is lost. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "cmd/command.h"
#include "cmd/exit_codes.h"
#include "cmd/launch_options.h"
#include "cmd/options.h"
#include "cmd/supervise.h"
#include "common/conf/conf.h"
#include "common/util/log.h"
#include "common/wire/job_name.h"
#include "common/wire/placement.h"
#include "common/wire/settings.h"

struct run_options {
    struct launch_options launch;
    const char *name;
    const char *nodes; /* NULL: not given */
    bool is_local;
    char **command; /* NULL: none given */
    bool is_detached;
};

enum { KEY_NODES = OPTION_KEY + CONF_END, KEY_LOCAL }; /* beyond those of the options of a launch */

static error_t parser(int key, char *arg, struct argp_state *state)
{
    struct run_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->launch;
        return 0;
    case 'n':
        options->name = arg;
        return 0;
    case 'd':
        options->is_detached = true;
        return 0;
    case KEY_NODES:
        options->nodes = arg;
        return 0;
    case KEY_LOCAL:
        options->is_local = true;
        return 0;
    case ARGP_KEY_ARG: /* the launch line begins; what follows is not ours */
        options->command = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static struct argp_option rows[] = {
    {0}, /* --name, from the settings table */
    {"detach", 'd', NULL, 0,
     "Go on in the background once the launch runs, after printing the job's name; its output goes to "
     "JOB.out "
     "and JOB.err here",
     0},
    {"nodes", KEY_NODES, "N", 0, "Run it on N nodes, its ranks in blocks", 0},
    {"local", KEY_LOCAL, NULL, 0,
     "These nodes are N agents on this machine, each with a run directory, a keeper and memory of its own",
     0},
    {0},
};

static const struct argp_child children[] = {{.argp = &launch_options_argp}, {0}};

static const struct argp argp = {
    .options = rows,
    .parser = parser,
    .children = children,
    .args_doc = "-- mpirun [options] PROGRAM [args]",
    .doc =
        "Launch an MPI program, take recovery lines of it, and restart it from the newest line when a rank "
        "is killed, a node is lost or the launch is aborted."
        "\vStandard input, output and error are the program's; belay speaks on standard error only. The "
        "exit code is the program's, or one of belay's own (see belay(1)).",
};

__attribute__((constructor)) static void fill_rows(void)
{
    rows[0] = option_of_setting(CONF_NAME);
}

static int read_nodes(const struct run_options *options, struct job_plan *plan, struct belay_error *err)
{
    char *end;
    if (!options->nodes)
        return options->is_local ? belay_error_set(err, EINVAL, "--local is for --nodes N") : 0;
    unsigned long count = strtoul(options->nodes, &end, 10);
    if (*end || count < 1 || count > PLACEMENT_NODES_MAX)
        return belay_error_set(err, EINVAL, "--nodes %s: a job has 1 to %u nodes", options->nodes,
                               PLACEMENT_NODES_MAX);
    if (!options->is_local && count > 1)
        return belay_error_set(err, EINVAL,
                               "--nodes %lu is for --local; other hosts are those of the launch line (mpirun "
                               "--host a,b)",
                               count);
    plan->nodes = (uint32_t)count;
    return 0;
}

/* Turn texts into values. Returns 0, or -1 with err. */
static int make_plan(const struct run_options *options, struct job_plan *plan, struct belay_error *err)
{
    *plan = (struct job_plan){.argv = options->command,
                              .settings = BELAY__WIRE__JOB_SETTINGS__INIT,
                              .is_detached = options->is_detached};
    plan->name = conf_text(CONF_NAME, options->name);
    if (plan->name && job_name_check(plan->name, err))
        return -1;
    if (!plan->argv)
        return belay_error_set(err, EINVAL,
                               "run: what is to be run? (belay run [options] -- mpirun ... PROGRAM)");
    if (launch_options_check_line(plan->argv, err) || read_nodes(options, plan, err))
        return -1;
    if (halt_read(&plan->halt, options->launch.texts, err) < 0)
        return -1;
    return settings_read(&plan->settings, options->launch.texts, true, err);
}

static int run(int argc, char **argv)
{
    struct run_options options = {0};
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

const struct command command_run = {
    .name = "run",
    .summary = "launch a job and bring it back when it is lost",
    .argp = &argp,
    .run = run,
};
