/*
 * travel_slots.h - places for the contents of files in one range of memory, kept from line to line: what has
 * not changed stays where it is, and is no part of the next line.
 *
 * Pure: offsets only.
 */
#ifndef BELAY_MPI_LAYER_LOWER_TRAVEL_SLOTS_H
#define BELAY_MPI_LAYER_LOWER_TRAVEL_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/file_id.h"

struct travel_slot {
    struct file_id id;
    uint64_t offset, capacity; /* multiples of a page */
    uint64_t bytes;            /* of its contents */
    int64_t noted_ns;          /* when reading them began, since 1970 */
    int64_t size, changed_ns;  /* length and ctime of the file then */
    bool is_settled;           /* a later change would have another ctime */
    bool is_wanted;            /* by the line that is being noted */
};

/* Zeroed: none. */
struct travel_slots {
    struct travel_slot *items; /* by offset */
    size_t count, room;
};

/* A line begins: nothing is wanted yet. */
void travel_slots_begin(struct travel_slots *slots);
/* The slot of a file, wanted from now on; NULL: it has none. */
struct travel_slot *travel_slots_find(struct travel_slots *slots, const struct file_id *id);
/*
 * A slot for so many bytes of a file, below `end`; the file's former one if that is large enough. The others
 * may move in memory, not in their range. NULL: there is no room.
 */
struct travel_slot *travel_slots_take(struct travel_slots *slots, const struct file_id *id, uint64_t bytes,
                                      uint64_t end);
/* The line is noted: what was not wanted is given up. Returns where the last slot ends. */
uint64_t travel_slots_finish(struct travel_slots *slots);
/* Give up all. */
void travel_slots_reset(struct travel_slots *slots);

#endif
