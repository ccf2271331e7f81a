/*
 * halt.h - when a job that runs well is to end all the same, with its images kept: after so many lines, at a
 * time of day, or some time before Slurm ends its allocation.
 *
 * A halt is always at a committed line. The conditions are of one `belay run` or `belay restart`: they are
 * not recorded, since they would hold for the restart that goes on as well.
 */
#ifndef BELAY_CMD_HALT_H
#define BELAY_CMD_HALT_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/conf/conf.h"
#include "common/util/error.h"

struct halt_plan {
    uint64_t after_lines;  /* 0: no such condition */
    int64_t at_s;          /* since 1970; 0: at no time */
    enum conf_key at_name; /* the setting that has said so */
};

/*
 * From the options' texts (NULL: not given) and the environment. For --halt-before-limit Slurm is asked when
 * the allocation ends. Returns 0, or -1 with err.
 */
int halt_read(struct halt_plan *plan, const char *const texts[CONF_END], struct belay_error *err);

bool halt_is_wanted(const struct halt_plan *plan);

/*
 * The next time, in seconds since 1970, that a text means: HH:MM[:SS], or YYYY-MM-DD[THH:MM[:SS]], local
 * time. now_s: what is the present. Returns 0, or -1 with err (EINVAL: no time; ERANGE: it is past).
 */
int halt_parse_time(const char *text, int64_t now_s, int64_t *at_s, struct belay_error *err);

/* While the job is supervised. */
struct halt {
    struct halt_plan plan;
    const char *rundir, *job;    /* borrowed; of `belay checkpoint` */
    const sigset_t *signal_mask; /* the same */
    uint64_t newest_line;        /* of those that were heard of */
    uint64_t lines;              /* how many these are */
    bool is_met;                 /* newest_line is the last line of this run */
    pid_t child;                 /* takes a line; 0: none */
    bool has_asked;              /* for a line, and what came of that was told */
    long long ask_at_ms;         /* by CLOCK_MONOTONIC: not before then */
};

/* A line is committed; the same one may be told several times. */
void halt_note_line(struct halt *halt, uint64_t line);
/* Take a line if the time has come. */
void halt_look(struct halt *halt);
/* When halt_look() is to be called next, by CLOCK_MONOTONIC; 0: never. */
long long halt_look_at_ms(const struct halt *halt);
/* The launch is over. */
void halt_end_child(struct halt *halt);
/* "--halt-at 14:30" has been met: which condition, as the user gave it. */
const char *halt_reason(const struct halt *halt, char text[64]);

#endif
