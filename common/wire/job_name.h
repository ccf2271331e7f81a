/*
 * job_name.h - what may be a job's name. It is the name of files as well, and a word of command lines.
 */
#ifndef BELAY_COMMON_WIRE_JOB_NAME_H
#define BELAY_COMMON_WIRE_JOB_NAME_H

#include <stdbool.h>

#include "common/util/error.h"

#define JOB_NAME_BYTES 65 /* with the end of the text */

/* Letters of ASCII, digits, '.', '_' and '-', at most 64, the first neither '.' nor '-'. */
bool job_name_is_valid(const char *name);

/* Returns 0, or -1 with err (EINVAL), which says what a name may be. */
int job_name_check(const char *name, struct belay_error *err);

/*
 * A name that begins like this text and leaves room for "-NUMBER": what may not be in a name becomes '_'. An
 * empty text gives "job".
 */
void job_name_make(const char *text, char name[JOB_NAME_BYTES]);

#endif
