/*
 * launch_line.h - how Belay's variables get into the ranks: the launch line and environment, rewritten.
 *
 * Open MPI's launchers (mpirun, mpiexec, orterun, prun) get "-x NAME=VALUE" in each application context
 * and an unchanged environment of their own, so that the preload is in the ranks and not in mpirun. Every
 * other launcher (a script) gets the variables in its environment, which it passes on, and so does an
 * Open MPI launcher that reads its contexts from a file (--app), where the line's -x has no effect. Slurm's
 * srun gets them so as well, but for the preload, which its option --export gives to the ranks only. Pure
 * functions.
 */
#ifndef BELAY_CMD_LAUNCH_LINE_H
#define BELAY_CMD_LAUNCH_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct launch_variables {
    const char *preload;   /* libbelay.so; goes before any LD_PRELOAD of the user */
    const char *name;      /* BELAY_NAME */
    const char *rundir;    /* BELAY_RUNDIR */
    uint32_t epoch;        /* BELAY_EPOCH */
    const char *hosts;     /* BELAY_HOSTS; NULL: all nodes are on this machine */
    const char *placement; /* BELAY_PLACEMENT; NULL: all ranks have this run directory's agent */
    const char *nodes;   /* that an srun goes to, by their names with commas; NULL: as its environment says */
    uint32_t node_count; /* of these */
};

/* Does this program take "-x NAME=VALUE"? */
bool launch_line_is_mpirun(const char *program);
/* Is it a launcher whose options are known: one of these, or srun? */
bool launch_line_is_known(const char *program);

/*
 * May the ranks' output reach belay without the launcher? Not if its options mark, merge or store it, nor if
 * the launcher is another program (a script), which may do anything with it.
 */
bool launch_line_leaves_output(char *const argv[]);

/* Does standard input go to rank 0, as it does unless an option or another launcher sends it elsewhere? */
bool launch_line_leaves_input(char *const argv[]);

/*
 * The line to execute. environment is the launch's (for a user's own LD_PRELOAD, and BELAY_FAULT,
 * BELAY_LATE_MPI and BELAY_LOG, which are passed on). NULL-terminated; the caller frees it with
 * string_list_free(). NULL with ENOMEM.
 */
char **launch_line_build(char *const argv[], char *const environment[],
                         const struct launch_variables *variables);

/*
 * The program of the application context whose words begin at argv[*at] (of an mpirun line, or the only one
 * of an srun line; the first is at 1). Moves *at to the next context, or to the end of the line. NULL: the
 * context names none.
 */
const char *launch_line_program(char *const argv[], size_t *at);

/* What a job is called that nobody has named: the first program's base name, else the launcher's. */
const char *launch_line_name(char *const argv[]);

/* The launcher's own environment, for the line that the user gave; same ownership. */
char **launch_environment_build(char *const argv[], char *const environment[],
                                const struct launch_variables *variables);

#endif
