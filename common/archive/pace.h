/*
 * pace.h - which of a job's lines are archived: each so many, or the first one of each time.
 */
#ifndef BELAY_COMMON_ARCHIVE_PACE_H
#define BELAY_COMMON_ARCHIVE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"

struct archive_pace {
    uint64_t lines; /* each so many; 0: by the time */
    uint64_t ms;
};

/* What --archive-every says: a whole number, or a time; "": the default. Returns 0, or -1 with err. */
int archive_pace_parse(const char *text, struct archive_pace *pace, struct belay_error *err);

/* When a line was archived last; zeroed: none was. */
struct archive_clock {
    uint64_t lines; /* committed since */
    int64_t at_ms;
    bool has_begun;
};

/* A line commits now: is it archived? */
bool archive_is_due(const struct archive_pace *pace, struct archive_clock *clock, int64_t now_ms);

#endif
