#include "cmd/launch_line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/launch_words.h"
#include "cmd/srun_line.h"
#include "cmd/srun_words.h"
#include "cmd/string_list.h"
#include "common/wire/placement.h"

static const char *const mpiruns[] = {"mpirun", "mpiexec", "orterun", "prun"};

/* Variables of the user's environment that the ranks are to see. */
static const char *const passed_on[] = {"BELAY_FAULT", "BELAY_LATE_MPI", "BELAY_LOG"};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool launch_line_is_mpirun(const char *program)
{
    return launch_words_has(mpiruns, LAUNCH_WORDS_COUNT(mpiruns), base_name(program));
}

bool launch_line_is_known(const char *program)
{
    return launch_line_is_mpirun(program) || srun_line_is_it(program);
}

/* Is this word the value of a "-x" that speaks of LD_PRELOAD? */
static bool names_preload(const char *value)
{
    size_t length = strlen("LD_PRELOAD");
    return !strncmp(value, "LD_PRELOAD", length) && (value[length] == '=' || value[length] == '\0');
}

/* Is argv[i], argv[i + 1] the user's own "-x LD_PRELOAD[=...]"? */
static bool is_own_preload(char *const argv[], size_t i)
{
    const char *option = launch_words_option(argv[i]);
    return option && !strcmp(option, "x") && argv[i + 1] && names_preload(argv[i + 1]);
}

const char *launch_line_program(char *const argv[], size_t *at)
{
    if (srun_line_is_it(argv[0])) {
        const char *only = argv[srun_words_program(argv)];
        *at = string_list_count(argv);
        return only && only[0] != '-' ? only : NULL;
    }
    size_t i = launch_words_skip(argv, *at);
    const char *program = argv[i] && !launch_words_is_separator(argv[i]) ? argv[i] : NULL;
    while (argv[i] && !launch_words_is_separator(argv[i]))
        i++;
    *at = argv[i] ? i + 1 : i;
    return program;
}

/* The first word behind the options of a launcher that is not known. */
static const char *first_word(char *const argv[])
{
    size_t i = 1;
    while (argv[i] && argv[i][0] == '-')
        i++;
    return argv[i];
}

const char *launch_line_name(char *const argv[])
{
    size_t at = 1;
    const char *program = launch_line_is_known(argv[0]) ? launch_line_program(argv, &at) : first_word(argv);
    return base_name(program ? program : argv[0]);
}

/* Does the context that begins at argv[i] have one of these options? */
static bool has_option(char *const argv[], size_t i, const char *const *options, size_t count)
{
    const char *option;
    while (argv[i] && (option = launch_words_option(argv[i]))) {
        if (launch_words_has(options, count, option))
            return true;
        for (size_t words = 1 + launch_words_values(option); words > 0 && argv[i]; words--)
            i++;
    }
    return false;
}

/* An mpirun line, no context of which has one of these options. */
static bool is_mpirun_without(char *const argv[], const char *const *options, size_t count)
{
    size_t at = 1;
    if (!launch_line_is_mpirun(argv[0]))
        return false;
    while (argv[at]) {
        if (has_option(argv, at, options, count))
            return false;
        launch_line_program(argv, &at);
    }
    return true;
}

bool launch_line_leaves_output(char *const argv[])
{
    static const char *const taking[] = {"merge-stderr-to-stdout",
                                         "output-directory",
                                         "output-filename",
                                         "tag-output",
                                         "timestamp-output",
                                         "xml",
                                         "xml-file",
                                         "xterm"};
    struct srun_given given;
    if (srun_line_is_it(argv[0]))
        return !srun_words_find(argv, SRUN_OUTPUT, &given);
    return is_mpirun_without(argv, taking, LAUNCH_WORDS_COUNT(taking));
}

bool launch_line_leaves_input(char *const argv[])
{
    static const char *const sending[] = {"stdin"};
    struct srun_given given;
    if (srun_line_is_it(argv[0])) /* which gives it to all, if it is not told otherwise */
        return srun_words_find(argv, SRUN_INPUT, &given) && given.value && !strcmp(given.value, "0");
    return is_mpirun_without(argv, sending, LAUNCH_WORDS_COUNT(sending));
}

/* The user's own preload for the context that begins at argv[i]; fallback if its options name none. */
static const char *own_preload(char *const argv[], size_t i, const char *fallback)
{
    for (const char *option; argv[i] && (option = launch_words_option(argv[i]));
         i += 1 + launch_words_values(option)) {
        if (is_own_preload(argv, i) && argv[i + 1][strlen("LD_PRELOAD")] == '=')
            return argv[i + 1] + strlen("LD_PRELOAD=");
        if (string_list_count(argv + i) <= launch_words_values(option))
            break;
    }
    return fallback;
}

/* Add "NAME=VALUE", with "-x" before it if asked. */
static int add_variable(struct string_list *list, bool with_x, const char *name, const char *value)
{
    return (with_x && string_list_add(list, "-x")) || string_list_addf(list, "%s=%s", name, value) ? -1 : 0;
}

static int add_preload(struct string_list *list, bool with_x, const struct launch_variables *variables,
                       const char *own)
{
    return (with_x && string_list_add(list, "-x")) ||
                   string_list_addf(list, "LD_PRELOAD=%s%s%s", variables->preload, *own ? ":" : "", own)
               ? -1
               : 0;
}

/* Add all of Belay's variables; `own` is the user's LD_PRELOAD, "": none, NULL: the preload comes otherwise.
 */
static int add_variables(struct string_list *list, bool with_x, const struct launch_variables *variables,
                         const char *own)
{
    if ((own && add_preload(list, with_x, variables, own)) ||
        add_variable(list, with_x, "BELAY_NAME", variables->name) ||
        add_variable(list, with_x, "BELAY_RUNDIR", variables->rundir) ||
        (variables->hosts && add_variable(list, with_x, PLACEMENT_HOSTS_VARIABLE, variables->hosts)) ||
        (variables->placement && add_variable(list, with_x, PLACEMENT_VARIABLE, variables->placement)))
        return -1;
    return (with_x && string_list_add(list, "-x")) ||
                   string_list_addf(list, "BELAY_EPOCH=%u", variables->epoch)
               ? -1
               : 0;
}

/* What opens each application context of an mpirun line; the context's words begin at argv[i]. */
static int add_context(struct string_list *list, char *const argv[], size_t i, char *const environment[],
                       const struct launch_variables *variables)
{
    const char *own = own_preload(argv, i, string_list_value(environment, "LD_PRELOAD"));
    if (add_variables(list, true, variables, own ? own : ""))
        return -1;
    for (size_t k = 0; k < LAUNCH_WORDS_COUNT(passed_on); k++) {
        const char *value = string_list_value(environment, passed_on[k]);
        if (value && add_variable(list, true, passed_on[k], value))
            return -1;
    }
    return 0;
}

/* Copy one context from argv[*i] up to its separator or the end, without the user's own preload option. */
static int copy_context(struct string_list *list, char *const argv[], size_t *i)
{
    size_t values = 0; /* still to come for the option before */
    bool in_options = true;
    for (; argv[*i] && !launch_words_is_separator(argv[*i]); (*i)++) {
        const char *option = in_options && values == 0 ? launch_words_option(argv[*i]) : NULL;
        if (option && is_own_preload(argv, *i)) {
            (*i)++;
            continue;
        }
        if (option)
            values = launch_words_values(option);
        else if (values > 0)
            values--;
        else
            in_options = false;
        if (string_list_add(list, argv[*i]))
            return -1;
    }
    return 0;
}

static int build_mpirun_line(struct string_list *list, char *const argv[], char *const environment[],
                             const struct launch_variables *variables)
{
    size_t i = 0;
    do {
        if (string_list_add(list, argv[i++]) || add_context(list, argv, i, environment, variables) ||
            copy_context(list, argv, &i))
            return -1;
    } while (argv[i]);
    return 0;
}

char **launch_line_build(char *const argv[], char *const environment[],
                         const struct launch_variables *variables)
{
    struct string_list list = {0};
    if (srun_line_is_it(argv[0]))
        return srun_line_build(argv, variables->preload, string_list_value(environment, "LD_PRELOAD"));
    if (!launch_line_is_mpirun(argv[0]))
        return string_list_copy(argv, string_list_count(argv));
    if (build_mpirun_line(&list, argv, environment, variables) == 0)
        return list.items;
    string_list_free(list.items);
    return NULL;
}

/* Is this NAME=VALUE one that add_variables() sets? */
static bool is_ours(const char *entry)
{
    static const char *const names[] = {"LD_PRELOAD=",  "BELAY_NAME=",          "BELAY_RUNDIR=",
                                        "BELAY_EPOCH=", PLACEMENT_VARIABLE "=", PLACEMENT_HOSTS_VARIABLE "="};
    for (size_t i = 0; i < LAUNCH_WORDS_COUNT(names); i++)
        if (!strncmp(entry, names[i], strlen(names[i])))
            return true;
    return false;
}

/* Are the contexts of this mpirun line in a file? */
static bool has_app_file(char *const argv[])
{
    for (size_t i = 1; argv[i];) {
        const char *option = launch_words_option(argv[i++]);
        if (!option)
            return false;
        if (!strcmp(option, "app"))
            return true;
        for (size_t values = launch_words_values(option); values > 0 && argv[i]; values--)
            i++;
    }
    return false;
}

/* The nodes that this step is on stand for the allocation, which may have lost others. */
static int add_nodes(struct string_list *list, const struct launch_variables *variables)
{
    static const char *const counts[] = {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"};
    static const char *const names[] = {"SLURM_JOB_NODELIST", "SLURM_NODELIST"};
    static const char *const on_each[] = {"SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"};
    for (size_t i = 0; i < 2; i++)
        if (string_list_addf(list, "%s=%u", counts[i], variables->node_count) ||
            string_list_addf(list, "%s=%s", names[i], variables->nodes) ||
            string_list_addf(list, "%s=1(x%u)", on_each[i], variables->node_count))
            return -1;
    return 0;
}

char **launch_environment_build(char *const argv[], char *const environment[],
                                const struct launch_variables *variables)
{
    struct string_list list = {0};
    bool has_failed = false, is_srun = srun_line_is_it(argv[0]), has_nodes = is_srun && variables->nodes;
    if (launch_line_is_mpirun(argv[0]) && !has_app_file(argv))
        return string_list_copy(environment, string_list_count(environment));
    for (size_t i = 0; environment[i] && !has_failed; i++) {
        bool is_preload = !strncmp(environment[i], "LD_PRELOAD=", strlen("LD_PRELOAD="));
        if ((is_ours(environment[i]) && !(is_srun && is_preload)) ||
            (has_nodes && srun_line_is_of_nodes(environment[i])))
            continue;
        has_failed = string_list_add(&list, environment[i]);
    }
    const char *own = string_list_value(environment, "LD_PRELOAD");
    if (!has_failed &&
        add_variables(&list, false, variables,
                      is_srun ? NULL
                      : own   ? own
                              : "") == 0 &&
        (!has_nodes || add_nodes(&list, variables) == 0))
        return list.items;
    string_list_free(list.items);
    return NULL;
}
