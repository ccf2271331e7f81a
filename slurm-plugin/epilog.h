/*
 * epilog.h - what the plugin does when a job has ended on a node, as root, in a process of slurmd's.
 */
#ifndef BELAY_SLURM_PLUGIN_EPILOG_H
#define BELAY_SLURM_PLUGIN_EPILOG_H

#include <stdint.h>
#include <sys/types.h>

#include "slurm-plugin/site.h"

/*
 * Have the user's porter on this node drop what it holds of the job, or keep it if the job may go on. Returns
 * after a bounded time, whatever slurmctld, the porter and the agent do. There is no error: Slurm would drain
 * the node, and what is not dropped goes when its retention time has ended.
 */
void epilog_run(const struct site *site, uint32_t job, uid_t user);

#endif
