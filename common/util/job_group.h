/*
 * job_group.h - whether a control group is one of a job of Slurm's. Pure; allocates nothing.
 */
#ifndef BELAY_COMMON_UTIL_JOB_GROUP_H
#define BELAY_COMMON_UTIL_JOB_GROUP_H

#include <stdbool.h>

/* group: one or several paths as in /proc/PID/cgroup. */
bool job_group_is_it(const char *group);

#endif
