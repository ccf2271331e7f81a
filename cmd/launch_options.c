#include "cmd/launch_options.h"

#include "cmd/options.h"
#include "common/wire/settings.h"

static struct argp_option rows[CONF_END + 1]; /* filled from the settings table; the last is the end mark */

static error_t parser(int key, char *arg, struct argp_state *state)
{
    struct launch_options *options = state->input;
    for (size_t i = 0; i < settings_count(); i++)
        if (rows[i].key == key) {
            options->texts[settings_key(i)] = arg ? arg : "1"; /* a flag has no value */
            return 0;
        }
    return ARGP_ERR_UNKNOWN;
}

const struct argp launch_options_argp = {.options = rows, .parser = parser};

__attribute__((constructor)) static void fill_rows(void)
{
    for (size_t i = 0; i < settings_count(); i++)
        rows[i] = option_of_setting(settings_key(i));
}
