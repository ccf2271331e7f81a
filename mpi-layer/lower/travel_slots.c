/* travel_slots.c - see travel_slots.h. */
#include "mpi-layer/lower/travel_slots.h"

#include <string.h>

#include "common/util/array.h"

#define UNIT 4096u

void travel_slots_begin(struct travel_slots *slots)
{
    for (size_t i = 0; i < slots->count; i++)
        slots->items[i].is_wanted = false;
}

struct travel_slot *travel_slots_find(struct travel_slots *slots, const struct file_id *id)
{
    for (size_t i = 0; i < slots->count; i++)
        if (file_id_is_same(&slots->items[i].id, id)) {
            slots->items[i].is_wanted = true;
            return &slots->items[i];
        }
    return NULL;
}

static void drop(struct travel_slots *slots, size_t at)
{
    slots->count--;
    memmove(&slots->items[at], &slots->items[at + 1], (slots->count - at) * sizeof *slots->items);
}

static void drop_unwanted(struct travel_slots *slots)
{
    for (size_t i = slots->count; i-- > 0;)
        if (!slots->items[i].is_wanted)
            drop(slots, i);
}

/* The first gap that is large enough. */
static struct travel_slot *insert(struct travel_slots *slots, const struct file_id *id, uint64_t capacity,
                                  uint64_t end)
{
    uint64_t from = 0;
    size_t at = 0;
    while (at < slots->count && slots->items[at].offset - from < capacity) {
        from = slots->items[at].offset + slots->items[at].capacity;
        at++;
    }
    if (from > end || end - from < capacity ||
        array_reserve(&slots->items, slots->count + 1, &slots->room) < 0)
        return NULL;
    memmove(&slots->items[at + 1], &slots->items[at], (slots->count - at) * sizeof *slots->items);
    slots->count++;
    slots->items[at] =
        (struct travel_slot){.id = *id, .offset = from, .capacity = capacity, .is_wanted = true};
    return &slots->items[at];
}

struct travel_slot *travel_slots_take(struct travel_slots *slots, const struct file_id *id, uint64_t bytes,
                                      uint64_t end)
{
    struct travel_slot *slot = travel_slots_find(slots, id);
    if (slot && bytes <= slot->capacity)
        return slot;
    if (slot)
        drop(slots, (size_t)(slot - slots->items));
    uint64_t wanted =
        (bytes + bytes / 8 + UNIT) / UNIT * UNIT; /* a file that grows does not move each time */
    slot = insert(slots, id, wanted, end);
    if (slot)
        return slot;
    drop_unwanted(slots);
    return insert(slots, id, wanted, end);
}

uint64_t travel_slots_finish(struct travel_slots *slots)
{
    drop_unwanted(slots);
    const struct travel_slot *last = slots->count ? &slots->items[slots->count - 1] : NULL;
    return last ? last->offset + last->capacity : 0;
}

void travel_slots_reset(struct travel_slots *slots)
{
    slots->count = 0;
}
