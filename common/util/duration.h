/*
 * duration.h - spans of time as people and Slurm write them.
 *
 * Understood: a number with a unit (500ms, 10s, 5m, 2h) and Slurm's formats (minutes, minutes:seconds,
 * hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds). As in Slurm, a
 * plain number is minutes and the parts may exceed their usual range (1:90 is 150 seconds).
 */
#ifndef BELAY_COMMON_UTIL_DURATION_H
#define BELAY_COMMON_UTIL_DURATION_H

#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"

#define DURATION_TEXT_BYTES 32

/* Returns 0 and sets *ms, or -1 with err: EINVAL (not a time), ERANGE (more than 2^63 ms). */
int duration_parse(const char *text, uint64_t *ms, struct belay_error *err);

/* The shortest form with a unit that duration_parse() reads back: "500ms", "90s", "2h". Returns text. */
const char *duration_format(uint64_t ms, char text[DURATION_TEXT_BYTES]);

#endif
