#include "node-agent/member/holes.h"

#include <stdlib.h>

enum unit_state {
    UNIT_HOLE = 0,
    UNIT_URGENT, /* a hole, and in the queue */
    UNIT_ASKED,
    UNIT_HERE,
};

struct holes {
    uint64_t bytes, left_bytes;
    uint64_t count;  /* of units */
    uint64_t *queue; /* units that somebody waits for, oldest first: a ring of `count` */
    uint64_t queue_first, queue_count;
    uint64_t near;           /* where to go on when nobody waits */
    uint64_t holes;          /* units in state HOLE */
    uint64_t preferred;      /* of these, so many that are expected to be waited for */
    uint64_t preferred_here; /* units of them that are here */
    uint8_t *is_preferred;   /* of each unit */
    uint8_t state[];
};

struct holes *holes_create(uint64_t bytes)
{
    uint64_t count = (bytes + HOLES_UNIT_BYTES - 1) / HOLES_UNIT_BYTES;
    struct holes *holes = calloc(1, sizeof *holes + count);
    if (!holes || !(holes->queue = calloc(count + 1, sizeof *holes->queue)) ||
        !(holes->is_preferred = calloc(count + 1, 1))) {
        holes_destroy(holes);
        return NULL;
    }
    holes->bytes = holes->left_bytes = bytes;
    holes->count = holes->holes = count;
    return holes;
}

void holes_destroy(struct holes *holes)
{
    if (holes) {
        free(holes->queue);
        free(holes->is_preferred);
    }
    free(holes);
}

bool holes_is_here(const struct holes *holes, uint64_t offset)
{
    return holes->state[offset / HOLES_UNIT_BYTES] == UNIT_HERE;
}

static void give(const struct holes *holes, uint64_t first, uint64_t count, struct holes_range *range)
{
    uint64_t end = (first + count) * HOLES_UNIT_BYTES;
    range->offset = first * HOLES_UNIT_BYTES;
    range->bytes = (end < holes->bytes ? end : holes->bytes) - range->offset;
}

bool holes_next_here(const struct holes *holes, uint64_t offset, struct holes_range *range)
{
    /* What ends with the image ends within a unit. */
    uint64_t first = (offset + HOLES_UNIT_BYTES - 1) / HOLES_UNIT_BYTES, count = 0;
    while (first < holes->count && holes->state[first] != UNIT_HERE)
        first++;
    while (first + count < holes->count && holes->state[first + count] == UNIT_HERE)
        count++;
    if (count == 0)
        return false;
    range->is_urgent = false;
    give(holes, first, count, range);
    return true;
}

uint64_t holes_left(const struct holes *holes)
{
    return holes->left_bytes;
}

/* It is not a hole any more. */
static void leave_holes(struct holes *holes, uint64_t unit, enum unit_state state)
{
    holes->state[unit] = (uint8_t)state;
    holes->holes--;
    holes->preferred -= holes->is_preferred[unit];
}

static void fault_unit(struct holes *holes, uint64_t unit)
{
    holes->near = unit + 1;
    if (holes->state[unit] != UNIT_HOLE)
        return;
    leave_holes(holes, unit, UNIT_URGENT);
    holes->queue[(holes->queue_first + holes->queue_count++) % holes->count] = unit;
}

void holes_fault(struct holes *holes, uint64_t offset)
{
    fault_unit(holes, offset / HOLES_UNIT_BYTES);
}

void holes_fault_range(struct holes *holes, uint64_t offset, uint64_t end)
{
    for (uint64_t unit = offset / HOLES_UNIT_BYTES; unit < holes->count && unit * HOLES_UNIT_BYTES < end;
         unit++)
        fault_unit(holes, unit);
}

uint64_t holes_prefer(struct holes *holes, uint64_t offset, uint64_t end)
{
    uint64_t units = 0;
    for (uint64_t unit = offset / HOLES_UNIT_BYTES; unit < holes->count && unit * HOLES_UNIT_BYTES < end;
         unit++) {
        if (holes->is_preferred[unit])
            continue;
        holes->is_preferred[unit] = 1;
        holes->preferred += holes->state[unit] == UNIT_HOLE;
        holes->preferred_here += holes->state[unit] == UNIT_HERE;
        units++;
    }
    return units;
}

bool holes_has_preferred(const struct holes *holes)
{
    return holes->preferred > 0;
}

uint64_t holes_preferred_here(const struct holes *holes)
{
    return holes->preferred_here;
}

/* What is expected to be waited for comes first. */
static bool is_next(const struct holes *holes, uint64_t unit, bool is_preferred)
{
    return holes->state[unit] == UNIT_HOLE && (holes->is_preferred[unit] || !is_preferred);
}

/* The first of these from `near` on, around the end. There is one. */
static uint64_t find_near(const struct holes *holes, bool is_preferred)
{
    uint64_t unit = holes->near < holes->count ? holes->near : 0;
    while (!is_next(holes, unit, is_preferred))
        unit = unit + 1 < holes->count ? unit + 1 : 0;
    return unit;
}

bool holes_next(struct holes *holes, bool only_urgent, uint32_t most_units, struct holes_range *range)
{
    uint64_t first, count = 0;
    range->is_urgent = holes->queue_count > 0;
    if (range->is_urgent) {
        first = holes->queue[holes->queue_first];
        holes->queue_first = (holes->queue_first + 1) % holes->count;
        holes->queue_count--;
        holes->state[first] = UNIT_ASKED;
        give(holes, first, 1, range);
        return true;
    }
    if (only_urgent || holes->holes == 0 || most_units == 0)
        return false;
    bool is_preferred = holes->preferred > 0;
    first = find_near(holes, is_preferred);
    while (count < most_units && first + count < holes->count && is_next(holes, first + count, is_preferred))
        leave_holes(holes, first + count++, UNIT_ASKED);
    holes->near = first + count;
    give(holes, first, count, range);
    return true;
}

void holes_came(struct holes *holes, const struct holes_range *range)
{
    for (uint64_t at = range->offset; at < range->offset + range->bytes; at += HOLES_UNIT_BYTES) {
        holes->state[at / HOLES_UNIT_BYTES] = UNIT_HERE;
        holes->preferred_here += holes->is_preferred[at / HOLES_UNIT_BYTES];
    }
    holes->left_bytes -= range->bytes;
}
