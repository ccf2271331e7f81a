/*
 * slurm_site.h - what Slurm says of its configuration (`scontrol show config`).
 */
#ifndef BELAY_CMD_SLURM_SITE_H
#define BELAY_CMD_SLURM_SITE_H

#include <stdbool.h>
#include <stddef.h>

/* The value of a line NAME = VALUE. Returns whether there is one: not where Slurm does not answer. */
bool slurm_site_value(const char *name, char *value, size_t bytes);

/* Does Slurm end whatever a step has started when the step ends, by control groups? */
bool slurm_site_ends_all(void);

#endif
