/*
 * wish.h - what a user asks of Belay by Slurm's options, variables and the site's defaults: read and checked.
 *
 * Each is given by an option of srun, sbatch and salloc, else by a variable of the environment, else by a
 * word NAME=VALUE in plugstack.conf. Pure.
 */
#ifndef BELAY_SLURM_PLUGIN_WISH_H
#define BELAY_SLURM_PLUGIN_WISH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"

#define WISH_TEXT_BYTES 4096u

enum wish_key {
    WISH_INTERVAL = 0, /* a time; "0" or "none": no lines */
    WISH_DIR,          /* a folder that all nodes share, for files as they were at the line */
    WISH_REDUNDANCY,   /* SINGLE or PARTNER */
    WISH_RESTART,      /* the number of a line; "job:ID": of that job; a path: an archive; or "none": from the
                          start */
    WISH_ARCHIVE, /* which lines are written to files in that folder: a number, or a time; "none": none */
    WISH_KEYS
};

struct wish_row {
    const char *option;   /* without dashes */
    const char *variable; /* of the environment */
    const char *word;     /* of plugstack.conf */
    const char *argument; /* what help calls the value */
    const char *help;
};
/* The row of a key; never NULL for a valid one. */
const struct wish_row *wish_row(enum wish_key key);

struct wish {
    char texts[WISH_KEYS][WISH_TEXT_BYTES]; /* "": not given */
};

/*
 * Check a value, and keep it. given_by names its source in messages: "--checkpoint-interval", "the variable
 * ...". Returns 0, or -1 with err (EINVAL, ERANGE, ENOTSUP).
 */
int wish_take(struct wish *wish, enum wish_key key, const char *given_by, const char *text,
              struct belay_error *err);

/* What is not given is taken from another. */
void wish_fill(struct wish *wish, const struct wish *other);

/* The job that a value of WISH_RESTART names; 0: it names none. */
#define WISH_JOB "job:"
uint32_t wish_restart_job(const char *text);
/* Does it name a folder of archived lines? Then wish_restart_job() is the job whose folder that is, if it
 * says so. */
bool wish_restart_is_folder(const char *text);

/* Are lines to be written to files? */
bool wish_is_archived(const struct wish *wish);
/* Are lines asked for? */
bool wish_is_on(const struct wish *wish);

#endif
