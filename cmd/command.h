/*
 * command.h - the subcommands of belay. Each lives in a file of its name and is listed in belay.c.
 */
#ifndef BELAY_CMD_COMMAND_H
#define BELAY_CMD_COMMAND_H

#include <argp.h>
#include <stdbool.h>

struct command {
    const char *name;
    const char *summary;               /* one line of `belay --help` */
    const struct argp *argp;           /* options and help text */
    int (*run)(int argc, char **argv); /* argv[0] is the subcommand's name; returns an exit code */
    bool takes_slurm_job;              /* for JOB there may be a job or step of Slurm's (slurm_job.h) */
};

extern const struct command command_advise;
extern const struct command command_checkpoint;
extern const struct command command_clean;
extern const struct command command_doctor;
extern const struct command command_inspect;
extern const struct command command_verify;
extern const struct command command_list;
extern const struct command command_restart;
extern const struct command command_run;
extern const struct command command_status;
extern const struct command command_stop;
extern const struct command command_top;

#endif
