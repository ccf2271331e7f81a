#include "cmd/launch_options.h"

#include <errno.h>

#include "cmd/options.h"
#include "common/wire/settings.h"

static struct argp_option rows[CONF_END + 1]; /* filled from the settings table; the last is the end mark */

/* What holds for one launch line only is no setting of the job. */
static const enum conf_key of_launch[] = {CONF_HALT_AFTER_LINES, CONF_HALT_AT, CONF_HALT_BEFORE_LIMIT};

static size_t row_count(void)
{
    return settings_count() + sizeof of_launch / sizeof of_launch[0];
}

static enum conf_key row_key(size_t row)
{
    return row < settings_count() ? settings_key(row) : of_launch[row - settings_count()];
}

static error_t parser(int key, char *arg, struct argp_state *state)
{
    struct launch_options *options = state->input;
    for (size_t i = 0; i < row_count(); i++)
        if (rows[i].key == key) {
            options->texts[row_key(i)] = arg ? arg : "1"; /* a flag has no value */
            return 0;
        }
    return ARGP_ERR_UNKNOWN;
}

int launch_options_check_line(char *const *argv, struct belay_error *err)
{
    return argv && !argv[0][0] ? belay_error_set(err, EINVAL, "the launch line begins with an empty word")
                               : 0;
}

const struct argp launch_options_argp = {.options = rows, .parser = parser};

__attribute__((constructor)) static void fill_rows(void)
{
    for (size_t i = 0; i < row_count(); i++)
        rows[i] = option_of_setting(row_key(i));
}
