/*
 * launch_options.h - the options that `belay run` and `belay restart` share.
 */
#ifndef BELAY_CMD_LAUNCH_OPTIONS_H
#define BELAY_CMD_LAUNCH_OPTIONS_H

#include <argp.h>

#include "cmd/supervise.h"
#include "common/util/error.h"

/* As given; NULL: not given. */
struct launch_options {
    const char *interval, *mtbf, *duty_cycle, *max_restarts, *memory, *retention, *undo_limit, *undo_total,
        *undo_dir, *tracker, *policy;
};

/* An argp child; its input is a struct launch_options. */
extern const struct argp launch_options_argp;

/* Fill the plan's settings from options, environment and defaults. Returns 0, or -1 with err. */
int launch_options_apply(const struct launch_options *options, struct job_plan *plan,
                         struct belay_error *err);

#endif
