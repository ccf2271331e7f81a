/*
 * porter_call.h - what the plugin asks the porter of a user on this node, by running belay-porter outside of
 * the job.
 */
#ifndef BELAY_SLURM_PLUGIN_PORTER_CALL_H
#define BELAY_SLURM_PLUGIN_PORTER_CALL_H

#include <stdint.h>

#include "slurm-plugin/outside.h"
#include "slurm-plugin/site.h"

/* task: a word of belay-porter's (porter.c). Returns 0, or -1 with err: ENOTSUP if the site wants everything
 * in the job. */
int porter_call(const struct site *site, const struct outside *of, const char *task, uint32_t job,
                struct belay_error *err);

#endif
