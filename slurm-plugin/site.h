/*
 * site.h - what the site says of Belay in plugstack.conf, behind the path of the plugin: words NAME=VALUE.
 */
#ifndef BELAY_SLURM_PLUGIN_SITE_H
#define BELAY_SLURM_PLUGIN_SITE_H

#include <limits.h>
#include <stdint.h>

#include "common/util/duration.h"
#include "common/util/error.h"
#include "slurm-plugin/wish.h"

struct site {
    struct wish wish;      /* what holds for users who ask for nothing else */
    char folder[PATH_MAX]; /* of Belay's programs */
    char rundir[PATH_MAX]; /* users have their run directories in it */
    char retention[DURATION_TEXT_BYTES];
    char group[NAME_MAX];  /* control group of what outlives jobs; "none": it ends with the job */
    uint64_t last_line_ms; /* before a job's time limit, when a line is taken; 0: none */
    uint64_t memory;       /* bytes that one user may take in that group; 0: no limit */
};

/*
 * folder: of Belay's programs, if no word names another one. Each word that makes sense is taken, so that one
 * mistake does not change what the others say. Returns 0, or -1 with err for the first word that makes none.
 */
int site_read(struct site *site, const char *folder, int count, char *const words[], struct belay_error *err);

/* The run directory of a user on a node; to has room for PATH_MAX + 32 bytes. */
#define SITE_RUNDIR_BYTES (PATH_MAX + 32)
void site_rundir(const struct site *site, unsigned user, char to[SITE_RUNDIR_BYTES]);

#endif
