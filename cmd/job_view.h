/*
 * job_view.h - a command that shows something of one job, which may run or have ended.
 */
#ifndef BELAY_CMD_JOB_VIEW_H
#define BELAY_CMD_JOB_VIEW_H

#include <argp.h>
#include <stdbool.h>

#include "common/wire/belay.pb-c.h"

/* Print it. Returns an exit code. */
typedef int job_view_f(const Belay__Wire__JobStatus *job, bool is_json);

/* Parse [JOB] and --json, find the job, as its agents or its record tell it, and show it. Returns an exit
 * code. */
int job_view(const struct argp *argp, int argc, char **argv, job_view_f *show);

/* The same of a job whose name is known; NULL: the only one. */
int job_view_once(const char *name, bool is_json, job_view_f *show);

#endif
