/*
 * supervise.h - run a job under the agent's eyes: launch, watch, restart from the last line, report.
 *
 * This process is the job's arbiter. The loop is the same for `belay run` and `belay restart`.
 */
#ifndef BELAY_CMD_SUPERVISE_H
#define BELAY_CMD_SUPERVISE_H

#include <stdbool.h>

#include "cmd/halt.h"
#include "common/wire/settings.pb-c.h"

struct hosts;

/* What is to be run; everything is borrowed. */
struct job_plan {
    const char *name;                  /* NULL: the agent picks one */
    char *const *argv;                 /* the launch line; NULL (restart only): the recorded one */
    uint32_t nodes;                    /* local ones, to run it on; 0: as the job has, or this one */
    Belay__Wire__JobSettings settings; /* of a restart: those that are to change */
    bool is_restart;                   /* of an ended job, from its newest line */
    bool leaves_files;                 /* ... although files cannot be put back */
    /*
     * The launch has begun, without belay, on these hosts, whose relays come by themselves: argv is a program
     * that ends with it. What its ranks have to know is said on standard output, and after a loss the job is
     * kept for `belay restart`. NULL: none.
     */
    const struct hosts *hosts;
    /*
     * ... of a job that Slurm has requeued: it goes on from the newest line that these hosts hold, or from
     * this one only;
     * "": from any. NULL: it begins.
     */
    const char *resumes;
    uint32_t life;       /* ... and how often Slurm has started the job, this time included; 0: not known */
    const char *program; /* of that launch */
    struct halt_plan halt;
    const char
        *archive;     /* a folder of archived lines that a restart goes on from; NULL: the agents' memory */
    bool is_detached; /* print the name once the launch runs, and go on in the background */
};

/*
 * Blocks until the job has ended (detached: until the launch runs, in the caller's process). Says on
 * stderr what goes wrong. Returns the exit code of belay.
 */
int supervise(const struct job_plan *plan);

/* Whether this folder has whole archived lines of the job: a path for `archive` above. */
bool supervise_has_archive(const char *base, const char *job);

#endif
