/*
 * options.h - the command line of heat.
 */
#ifndef BELAY_APPS_HEAT_OPTIONS_H
#define BELAY_APPS_HEAT_OPTIONS_H

struct options {
    const char *input;    /* HDF5 file with the initial field and the sources */
    const char *output;   /* prefix of the snapshots' names */
    const char *trace;    /* append "PID STEP SECONDS" here after each step; NULL: no trace */
    const char *wait_for; /* after half of the steps, wait until this file exists; NULL: do not wait */
    long steps;
    long snapshot_every; /* steps; 0: no snapshots */
    long report_every;   /* steps; 0: no progress lines */
};

enum options_result { OPTIONS_NONE = 0, OPTIONS_RUN, OPTIONS_HELP, OPTIONS_WRONG };

/* Fill *options from argv. Says what is wrong, or the help text, if is_speaker (one rank of all). */
enum options_result options_parse(int argc, char **argv, int is_speaker, struct options *options);

#endif
