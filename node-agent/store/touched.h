/*
 * touched.h - which parts of an image its rank has written lately: the touched set of FREM (Li and Lan,
 * "FREM: A Fast Restart Mechanism for General Checkpoint/Restart", IEEE Transactions on Computers).
 *
 * The delta of a line names the pages that were written since the line before. Whoever holds an image applies
 * its deltas, and so knows this without a word or a mark more: the set travels with the line. What is only
 * read is not in it. A set that is wrong costs time, never correctness: nothing but the order depends on it.
 *
 * Pure: no clock, no descriptor.
 */
#ifndef BELAY_NODE_AGENT_STORE_TOUCHED_H
#define BELAY_NODE_AGENT_STORE_TOUCHED_H

#include <stdint.h>

#include "common/image/runs.h"

#define TOUCHED_UNIT_BYTES (64ull << 10) /* what is told begins and ends at a multiple of this */
#define TOUCHED_LINES 16u                /* so many lines are remembered */

struct touched;

/* Of an image of which nothing is known yet. NULL with ENOMEM. */
struct touched *touched_create(void);
/* Accepts NULL. */
void touched_destroy(struct touched *touched);

/* The units in which these ascending runs lie. Returns 0, or -1 with errno; `to` is empty then. */
int touched_round(const struct image_run *runs, uint64_t count, struct run_set *to);

/* A line ends at this time; `units`, which is emptied, was written since the line before. */
void touched_note(struct touched *touched, struct run_set *units, uint64_t now_ms);

/* What was written in the lines of which a part lies within so long before the newest one, and in that.
 * Accepts NULL: nothing is known. Returns 0, or -1 with ENOMEM. */
int touched_within(const struct touched *touched, uint64_t window_ms, struct run_set *to);

#endif
