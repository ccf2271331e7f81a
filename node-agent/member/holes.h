/*
 * holes.h - which parts of an image are still to come while a rank runs on it, and which to ask for next: the
 * hole list of FREM (Li and Lan, "FREM: A Fast Restart Mechanism for General Checkpoint/Restart", IEEE
 * Transactions on Computers).
 *
 * Pure: no clock, no descriptor. Offsets are those of packed.h. The image is divided into units of
 * HOLES_UNIT_BYTES; a unit is a hole, asked for, or here.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_HOLES_H
#define BELAY_NODE_AGENT_MEMBER_HOLES_H

#include <stdbool.h>
#include <stdint.h>

#define HOLES_UNIT_BYTES (64ull << 10)

struct holes;

/* Of an image of so many bytes: all of it is to come. NULL with ENOMEM. */
struct holes *holes_create(uint64_t bytes);
/* Accepts NULL. */
void holes_destroy(struct holes *holes);

struct holes_range {
    uint64_t offset, bytes;
    bool is_urgent; /* somebody waits for it */
};

bool holes_is_here(const struct holes *holes, uint64_t offset);
/* The first range of whole units at or behind an offset that is here; false: there is none. */
bool holes_next_here(const struct holes *holes, uint64_t offset, struct holes_range *range);
/* How many bytes are not here. */
uint64_t holes_left(const struct holes *holes);

/* Somebody waits for this byte: its unit is asked for before all that nobody waits for, and what follows it
 * comes next. */
void holes_fault(struct holes *holes, uint64_t offset);
/* The same of each unit of a range, in its order. */
void holes_fault_range(struct holes *holes, uint64_t offset, uint64_t end);

/*
 * Somebody is expected to wait for these bytes (store/touched.h): they are asked for before others that
 * nobody waits for. Returns how many units are new in this.
 */
uint64_t holes_prefer(struct holes *holes, uint64_t offset, uint64_t end);

/* Whether some of that is still to be asked for; and how many units of it are here. */
bool holes_has_preferred(const struct holes *holes);
uint64_t holes_preferred_here(const struct holes *holes);

/*
 * What to ask for next: a unit that somebody waits for, the first that has waited; or, unless only_urgent is
 * true, up to most_units units, from behind the last of these on: first of those that are expected to be
 * waited for, then of the rest. It counts as asked for from now on. False: there is nothing.
 */
bool holes_next(struct holes *holes, bool only_urgent, uint32_t most_units, struct holes_range *range);

/* A range that holes_next() gave is here. */
void holes_came(struct holes *holes, const struct holes_range *range);

#endif
