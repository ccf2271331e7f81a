#include "cmd/options.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/util/log.h"
#include "common/wire/job_name.h"

#define DOC_BYTES 512 /* of an option's help */

/* The option row whose letter is this, here or in a child. NULL: none. */
static const struct argp_option *find_short_option(const struct argp *argp, char letter)
{
    const struct argp_option *found = NULL;
    for (const struct argp_option *row = argp->options; row && row->name; row++)
        if (row->key == letter)
            return row;
    for (const struct argp_child *child = argp->children; child && child->argp && !found; child++)
        found = find_short_option(child->argp, letter);
    return found;
}

/* The option row whose long name is `word` up to an '=', here or in a child. NULL: none. */
static const struct argp_option *find_long_option(const struct argp *argp, const char *word)
{
    size_t length = strcspn(word, "=");
    const struct argp_option *found = NULL;
    for (const struct argp_option *row = argp->options; row && row->name; row++)
        if (strlen(row->name) == length && !strncmp(row->name, word, length))
            return row;
    for (const struct argp_child *child = argp->children; child && child->argp && !found; child++)
        found = find_long_option(child->argp, word);
    return found;
}

static const char *what_is_wrong(const struct argp *argp, const char *word)
{
    if (word[0] != '-')
        return "was not expected";
    bool is_long = word[1] == '-', is_letter = !is_long && strlen(word) == 2;
    const struct argp_option *row = is_long     ? find_long_option(argp, word + 2)
                                    : is_letter ? find_short_option(argp, word[1])
                                                : NULL;
    if (!row)
        return is_letter ? "is not an option" : "is not an option, or its value is missing";
    return row->arg ? "needs a value" : "takes no value";
}

bool options_take_next(const struct argp *argp, const char *word)
{
    size_t length = strlen(word);
    const struct argp_option *row = NULL;
    if (length > 2 && word[0] == '-' && word[1] == '-')
        row = strchr(word, '=') ? NULL : find_long_option(argp, word + 2);
    else if (length > 1 && word[0] == '-')
        row = find_short_option(argp, word[length - 1]);
    return row && row->arg;
}

/* Around a subcommand's parser: argp tells only parsers, not its caller, where an error is. */
struct watched {
    void *input; /* of the subcommand's parser */
    int next;    /* the word after the one that was refused */
};

static error_t watching_parser(int key, char *arg, struct argp_state *state)
{
    struct watched *watched = state->input;
    (void)arg;
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = watched->input;
    else if (key == ARGP_KEY_ERROR)
        watched->next = state->next;
    return ARGP_ERR_UNKNOWN;
}

int options_parse(const struct argp *argp, int argc, char **argv, void *input)
{
    struct watched watched = {.input = input, .next = argc};
    const struct argp_child children[] = {{.argp = argp}, {0}};
    const struct argp outer = {.parser = watching_parser, .children = children};
    if (argp_parse(&outer, argc, argv, ARGP_IN_ORDER | ARGP_NO_ERRS | ARGP_NO_HELP, NULL, &watched) == 0)
        return 0;
    const char *word = argv[watched.next - 1];
    log_error("%s: '%s' %s (see 'belay help %s')", argv[0], word, what_is_wrong(argp, word), argv[0]);
    return -1;
}

error_t tool_options_parser(int key, char *arg, struct argp_state *state)
{
    struct tool_options *options = state->input;
    switch (key) {
    case 'j':
        options->is_json = true;
        return 0;
    case 'a':
        options->is_all = true;
        return 0;
    case OPTION_SLURM_JOB:
        options->slurm_job = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (!options->job)
            options->job = arg;
        else if (!options->extra)
            options->extra = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int tool_options_parse(const struct argp *argp, int argc, char **argv, bool needs_job,
                       struct tool_options *options)
{
    struct belay_error err;
    *options = (struct tool_options){0};
    if (options_parse(argp, argc, argv, options))
        return -1;
    const char *extra = argp->args_doc ? options->extra : options->job;
    if (extra)
        log_error("%s: '%s' was not expected (see 'belay help %s')", argv[0], extra, argv[0]);
    else if (needs_job && !options->job)
        log_error("%s: which job? ('belay list' shows them)", argv[0]);
    else if (options->job && job_name_check(options->job, &err))
        log_error("%s", err.text);
    else
        return 0;
    return -1;
}

struct argp_option option_of_setting(enum conf_key key)
{
    static char docs[CONF_END][DOC_BYTES]; /* argp keeps what it is given */
    const struct conf_setting *setting = conf_setting(key);
    const char *fallback = setting->fallback;
    snprintf(docs[key], DOC_BYTES, "%s%s%s%s", setting->help, fallback ? " (default: " : "",
             fallback ? fallback : "", fallback ? ")" : "");
    return (struct argp_option){.name = setting->name,
                                .key = setting->letter ? setting->letter : OPTION_KEY + (int)key,
                                .arg = setting->unit == CONF_UNIT_FLAG ? NULL : setting->argument,
                                .doc = docs[key]};
}
