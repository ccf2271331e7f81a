/*
 * slurm_job.h - jobs that are named as Slurm names them: JOB or JOB.STEP, on any node of the cluster.
 *
 * A step is called JOB.STEP-PROGRAM, and known on the node of its first rank. A command that is given
 * elsewhere is run there, as one more step of the job: so Slurm itself tells who may.
 */
#ifndef BELAY_CMD_SLURM_JOB_H
#define BELAY_CMD_SLURM_JOB_H

#include <argp.h>

/*
 * Look for what argv[1...] names so; argp: the command's, which tells what values of options are. Returns -1
 * if the command is to be run here (its word may have become the name of the step), or the exit code: the
 * command has been run elsewhere, or one line has told why not.
 */
int slurm_job_route(const struct argp *argp, int argc, char **argv);

#endif
