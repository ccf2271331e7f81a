/*
 * words.h - what a protected step's tasks are given: names and lists made of what Slurm tells. Pure.
 */
#ifndef BELAY_SLURM_PLUGIN_WORDS_H
#define BELAY_SLURM_PLUGIN_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"

#define WORDS_NAME_BYTES 65u

/*
 * What Belay calls a step: the job, the step's place among those of the job, and the program, so that the
 * steps of a requeued job find their lines. program: a path.
 */
void words_job_name(uint32_t job, uint32_t step, const char *program, char name[WORDS_NAME_BYTES]);

/* A list of libraries to preload: this one, then the user's, which may be NULL. 0, or -1 with err (E2BIG). */
int words_preload(const char *library, const char *users, char *list, size_t list_bytes,
                  struct belay_error *err);

#endif
