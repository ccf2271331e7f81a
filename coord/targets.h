/*
 * targets.h - the clock table of one line: for each communicator the largest clock seen, its target.
 *
 * Targets only rise within a line. A raised target is noted; targets_announce() turns any number of raises
 * into one new version. One owner, no locks.
 */
#ifndef BELAY_COORD_TARGETS_H
#define BELAY_COORD_TARGETS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/coord_clock.h"

struct targets {
    struct coord_clock *clocks; /* dense, in the order of first appearance */
    uint32_t count, capacity;
    uint32_t *slots; /* open addressing over clocks: index + 1, 0: free */
    uint32_t slot_count;
    uint32_t version; /* of the newest announced set, 0: none yet */
    bool is_raised;   /* since that announcement */
};

/* A zeroed struct is an empty table. */
void targets_destroy(struct targets *targets);

/* Forget everything: a new line begins. Keeps the memory. */
void targets_reset(struct targets *targets);

/* The target of comm is at least seq from now on. Returns 0, or -1 with ENOMEM (nothing changed). */
int targets_raise(struct targets *targets, uint64_t comm, uint64_t seq);

/* So many members more are counted in the clock of comm, which is in the table, and has `size` in all. */
void targets_see(struct targets *targets, uint64_t comm, uint32_t seen, uint32_t size);

/* The place of comm in `clocks`, TARGETS_NONE: it is not there. */
#define TARGETS_NONE UINT32_MAX
uint32_t targets_index(const struct targets *targets, uint64_t comm);

/* The target of comm; one that was never mentioned has 0. */
uint64_t targets_find(const struct targets *targets, uint64_t comm);

/* The table as it stands becomes the next version. Returns its number (1, 2, ...). */
uint32_t targets_announce(struct targets *targets);

#endif
