/*
 * slurm_name.h - words JOB and JOB.STEP, numbers of Slurm's, and the jobs of Belay's that they mean. Pure.
 */
#ifndef BELAY_CMD_SLURM_NAME_H
#define BELAY_CMD_SLURM_NAME_H

#include <stdbool.h>

#define SLURM_NAME_BYTES 32 /* of such a word, with its end */

bool slurm_name_is_it(const char *word);
/* Does a job of Belay's, which is called JOB.STEP-PROGRAM, belong to it? */
bool slurm_name_has(const char *word, const char *name);

#endif
