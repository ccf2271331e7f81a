/*
 * options.h - what the subcommands' option parsers share: one-line errors, and the form "[JOB] [--json]".
 */
#ifndef BELAY_CMD_OPTIONS_H
#define BELAY_CMD_OPTIONS_H

#include <argp.h>
#include <stdbool.h>

#include "common/conf/conf.h"
#include "common/util/error.h"

/* Words of "[JOB] [--json] [-- COMMAND]". */
struct tool_options {
    const char *job;   /* NULL: left out */
    const char *extra; /* a word too many, NULL: none */
    bool is_json;
    bool is_all;           /* belay list */
    const char *slurm_job; /* belay clean; NULL: not given */
};

/* The argp row of --json. */
#define OPTION_JSON                                                                                          \
    {                                                                                                        \
        "json", 'j', NULL, 0, "Print one JSON object", 0                                                     \
    }

#define OPTION_SLURM_JOB 0x10000 /* the key of --slurm-job */

/* An argp parser for input of type struct tool_options. */
error_t tool_options_parser(int key, char *arg, struct argp_state *state);

/*
 * Run an argp parser without its own messages and without --help (belay.c handles that). On failure one
 * line goes to stderr, which names the word that was refused. Returns 0 or -1.
 */
int options_parse(const struct argp *argp, int argc, char **argv, void *input);

/* Is the word behind this one its value, as behind "-n" or "--count"? */
bool options_take_next(const struct argp *argp, const char *word);

/* options_parse() for struct tool_options, refusing words too many and a missing JOB if one is needed. */
int tool_options_parse(const struct argp *argp, int argc, char **argv, bool needs_job,
                       struct tool_options *options);

/*
 * An argp row made from the settings table. Its key is the short option's letter, or OPTION_KEY + the setting
 * where there is none. A flag takes no value.
 */
struct argp_option option_of_setting(enum conf_key key);
#define OPTION_KEY 256

#endif
