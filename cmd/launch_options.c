#include "cmd/launch_options.h"

#include <limits.h>
#include <stdlib.h>

#include "cmd/options.h"
#include "common/conf/conf.h"

/* Options without a short letter get keys beyond the characters. */
enum {
    KEY_MAX_RESTARTS = 256,
    KEY_MTBF,
    KEY_DUTY_CYCLE,
    KEY_MEMORY,
    KEY_RETENTION,
    KEY_UNDO_LIMIT,
    KEY_UNDO_TOTAL,
    KEY_UNDO_DIR,
    KEY_TRACKER, KEY_POLICY,
};

static char undo_dir[PATH_MAX]; /* the absolute path of the one that is given */

static struct argp_option rows[12]; /* filled from the settings table; the last is the end mark */

static error_t parser(int key, char *arg, struct argp_state *state)
{
    struct launch_options *options = state->input;
    switch (key) {
    case 'i':
        options->interval = arg;
        return 0;
    case KEY_MTBF:
        options->mtbf = arg;
        return 0;
    case KEY_DUTY_CYCLE:
        options->duty_cycle = arg;
        return 0;
    case KEY_MAX_RESTARTS:
        options->max_restarts = arg;
        return 0;
    case KEY_MEMORY:
        options->memory = arg;
        return 0;
    case KEY_POLICY:
        options->policy = arg;
        return 0;
    case KEY_TRACKER:
        options->tracker = arg;
        return 0;
    case KEY_RETENTION:
        options->retention = arg;
        return 0;
    case KEY_UNDO_LIMIT:
        options->undo_limit = arg;
        return 0;
    case KEY_UNDO_TOTAL:
        options->undo_total = arg;
        return 0;
    case KEY_UNDO_DIR:
        options->undo_dir = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp launch_options_argp = {.options = rows, .parser = parser};

__attribute__((constructor)) static void fill_rows(void)
{
    rows[0] = option_of_setting(CONF_INTERVAL, 'i');
    rows[1] = option_of_setting(CONF_MTBF, KEY_MTBF);
    rows[2] = option_of_setting(CONF_DUTY_CYCLE, KEY_DUTY_CYCLE);
    rows[3] = option_of_setting(CONF_MAX_RESTARTS, KEY_MAX_RESTARTS);
    rows[4] = option_of_setting(CONF_MEMORY, KEY_MEMORY);
    rows[5] = option_of_setting(CONF_RETENTION, KEY_RETENTION);
    rows[6] = option_of_setting(CONF_UNDO_LIMIT, KEY_UNDO_LIMIT);
    rows[7] = option_of_setting(CONF_UNDO_DIR, KEY_UNDO_DIR);
    rows[8] = option_of_setting(CONF_TRACKER, KEY_TRACKER);
    rows[9] = option_of_setting(CONF_POLICY, KEY_POLICY);
    rows[10] = option_of_setting(CONF_UNDO_TOTAL, KEY_UNDO_TOTAL);
}

int launch_options_apply(const struct launch_options *options, struct job_plan *plan, struct belay_error *err)
{
    uint64_t max_restarts;
    if (conf_pace(options->interval, options->mtbf, options->duty_cycle, &plan->pace, err) ||
        conf_number(CONF_MAX_RESTARTS, options->max_restarts, &max_restarts, err) ||
        conf_number(CONF_MEMORY, options->memory, &plan->memory_bytes, err) ||
        conf_number(CONF_RETENTION, options->retention, &plan->retention_ms, err) ||
        conf_number(CONF_UNDO_LIMIT, options->undo_limit, &plan->undo_limit_bytes, err) ||
        conf_number(CONF_UNDO_TOTAL, options->undo_total, &plan->undo_total_bytes, err))
        return -1;
    plan->undo_dir = conf_text(CONF_UNDO_DIR, options->undo_dir);
    if (plan->undo_dir && !(plan->undo_dir = realpath(plan->undo_dir, undo_dir)))
        return belay_error_errno(err, "--undo-dir");
    plan->max_restarts = (uint32_t)max_restarts;
    plan->tracker = conf_text(CONF_TRACKER, options->tracker);
    if (!plan->tracker)
        plan->tracker = "";
    plan->policy = conf_text(CONF_POLICY, options->policy);
    if (!plan->policy)
        plan->policy = "";
    return 0;
}
