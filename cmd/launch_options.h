/*
 * launch_options.h - the options that `belay run` and `belay restart` share: one for each setting of a job.
 */
#ifndef BELAY_CMD_LAUNCH_OPTIONS_H
#define BELAY_CMD_LAUNCH_OPTIONS_H

#include <argp.h>

#include "common/conf/conf.h"
#include "common/util/error.h"

/* As given, by their settings; NULL: not given (common/wire/settings.h). */
struct launch_options {
    const char *texts[CONF_END];
};

/* An argp child; its input is a struct launch_options. */
extern const struct argp launch_options_argp;

/* Can this launch line name a program? NULL: none was given. Returns 0, or -1 with err. */
int launch_options_check_line(char *const *argv, struct belay_error *err);

#endif
