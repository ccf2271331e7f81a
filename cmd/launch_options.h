/*
 * launch_options.h - the options that `belay run` and `belay restart` share: one for each setting of a job.
 */
#ifndef BELAY_CMD_LAUNCH_OPTIONS_H
#define BELAY_CMD_LAUNCH_OPTIONS_H

#include <argp.h>

#include "common/conf/conf.h"

/* As given, by their settings; NULL: not given (common/wire/settings.h). */
struct launch_options {
    const char *texts[CONF_END];
};

/* An argp child; its input is a struct launch_options. */
extern const struct argp launch_options_argp;

#endif
