/*
 * limit.h - log lines that somebody else may cause: some in each while, then a count of those left out.
 */
#ifndef BELAY_COMMON_UTIL_LIMIT_H
#define BELAY_COMMON_UTIL_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#define LIMIT_LINES 4u /* in each while, of one kind */
#define LIMIT_WHILE_MS 10000u

struct limit {
    uint64_t begun_ms; /* the current while */
    uint64_t said, left_out;
};

/*
 * May a line be written now? now_ms: of a clock that does not go back. *left_out: how many were not since the
 * last one that was, to be told in this one.
 */
static inline bool limit_allows(struct limit *limit, uint64_t now_ms, uint64_t *left_out)
{
    if (limit->said == 0 || now_ms - limit->begun_ms >= LIMIT_WHILE_MS) {
        limit->begun_ms = now_ms;
        limit->said = 0;
    }
    if (limit->said >= LIMIT_LINES) {
        limit->left_out++;
        return false;
    }
    limit->said++;
    *left_out = limit->left_out;
    limit->left_out = 0;
    return true;
}

#endif
