/*
 * conf.h - the table of settings, and how one is looked up: option, then environment, then default.
 */
#ifndef BELAY_COMMON_CONF_CONF_H
#define BELAY_COMMON_CONF_CONF_H

#include <stdint.h>
#include <stdio.h>

#include "common/util/error.h"

enum conf_key {
    CONF_NONE = 0,
    CONF_NAME,
    CONF_INTERVAL,
    CONF_MTBF,
    CONF_DUTY_CYCLE,
    CONF_MAX_RESTARTS,
    CONF_MEMORY,
    CONF_RETENTION,
    CONF_UNDO_LIMIT,
    CONF_UNDO_TOTAL,
    CONF_UNDO_DIR,
    CONF_ARCHIVE,
    CONF_ARCHIVE_EVERY,
    CONF_ARCHIVE_KEEP,
    CONF_FILE_LIMIT,
    CONF_TRACKER,
    CONF_POLICY,
    CONF_POOL,
    CONF_CHILDREN,
    CONF_REDUNDANCY,
    CONF_GRANULARITY,
    CONF_COMPRESS,
    CONF_REPROTECT,
    CONF_RESTORE,
    CONF_TOUCHED_WINDOW,
    CONF_MIN_NODES,
    CONF_SPARES,
    CONF_FAILURE_DOMAINS,
    CONF_LEASE,
    CONF_COMEBACK,
    CONF_HALT_AFTER_LINES,
    CONF_HALT_AT,
    CONF_HALT_BEFORE_LIMIT,
    CONF_RECALL,
    CONF_SCRUB_INTERVAL,
    CONF_ENCRYPT,
    CONF_FABRIC_PROVIDER,
    CONF_FAN_OUT,
    CONF_RUNDIR,
    CONF_RECORD_AGE,
    CONF_LOG,
    CONF_FAULT,
    CONF_END, /* one past the last key */
};

enum conf_unit {
    CONF_UNIT_NONE = 0,
    CONF_UNIT_TEXT,
    CONF_UNIT_TIME, /* values in milliseconds */
    CONF_UNIT_SIZE, /* values in bytes */
    CONF_UNIT_COUNT,
    CONF_UNIT_FLAG,   /* 0 or 1; the option takes no value */
    CONF_UNIT_FOLDER, /* a text: the path of a directory that exists */
    CONF_UNIT_FILE,   /* the same of a file */
};

struct conf_setting {
    const char *name;     /* of the long option, without dashes */
    char letter;          /* of the short option; 0: none */
    const char *variable; /* of the environment */
    const char *argument; /* what help calls the value: "T", "N"; of a flag that of the variable */
    enum conf_unit unit;
    uint64_t min, max;     /* in the unit's base; unused for texts */
    const char *fallback;  /* the default as a user would write it; NULL: none */
    const char *zero_hint; /* not NULL: 0 is refused with this advice */
    const char *help;      /* one sentence, without the fallback */
};

/* The row of a key; never NULL for a valid key. */
const struct conf_setting *conf_setting(enum conf_key key);

/*
 * The value of a setting that is a number: `option` if not NULL, else the environment variable if it is
 * set and not empty, else the default. *value is in the unit's base, 0 if nothing was given and there is
 * no default. Returns 0, or -1 (EINVAL, ERANGE) with err, which names where the text came from.
 */
int conf_number(enum conf_key key, const char *option, uint64_t *value, struct belay_error *err);

/* The default of a setting that is a number, in the unit's base, whatever the environment says; 0: none. */
uint64_t conf_default(enum conf_key key);

/* How often lines are taken. */
struct conf_pace {
    uint64_t interval_ms;  /* 0: on demand only, or to be chosen */
    uint64_t mtbf_ms;      /* > 0: the interval is to be chosen for it */
    uint32_t duty_percent; /* that the choice leaves the application; unused otherwise */
};

/*
 * --interval (a time, or "auto"), --mtbf and --duty-cycle together; each option may be NULL. Returns 0, or -1
 * with err: as conf_number(), or EINVAL if one of the latter two is given as an option without auto.
 */
int conf_pace(const char *interval, const char *mtbf, const char *duty_cycle, struct conf_pace *pace,
              struct belay_error *err);

/* The same for a text setting. The result is borrowed from its source; NULL if nothing was given. */
const char *conf_text(enum conf_key key, const char *option);

/* Print the table for a person. */
void conf_print(FILE *stream);

#endif
