#include "tests/sim/queue.h"

#include <stdio.h>
#include <stdlib.h>

#define FIRST_CAPACITY 1024u

static void grow(struct queue *queue);
static void *resize(void *memory, size_t bytes);

void queue_destroy(struct queue *queue)
{
    queue_clear(queue);
    free(queue->heap);
    free(queue->events);
    free(queue->free_places);
    *queue = (struct queue){0};
}

void queue_clear(struct queue *queue)
{
    for (uint32_t i = 0; i < queue->count; i++)
        free(queue->events[queue->heap[i].place].message);
    queue->count = 0;
    queue->pushed = 0;
    for (uint32_t i = 0; i < queue->capacity; i++)
        queue->free_places[i] = i;
}

/* Keys move through the heap, events stay where they are. What is later than an hour counts as then. */
void queue_push(struct queue *queue, const struct event *event)
{
    uint64_t time_us = event->time_us < UINT32_MAX ? event->time_us : UINT32_MAX;
    uint64_t key = time_us << 32 | queue->pushed++;
    uint32_t place, at;

    if (queue->count == queue->capacity)
        grow(queue);
    place = queue->free_places[queue->count];
    queue->events[place] = *event;
    for (at = queue->count++; at > 0 && key < queue->heap[(at - 1) / 2].key; at = (at - 1) / 2)
        queue->heap[at] = queue->heap[(at - 1) / 2];
    queue->heap[at] = (struct queued){.key = key, .place = place};
}

bool queue_pop(struct queue *queue, struct event *event)
{
    struct queued last;
    uint32_t at = 0;

    if (queue->count == 0)
        return false;
    *event = queue->events[queue->heap[0].place];
    queue->free_places[--queue->count] = queue->heap[0].place;
    last = queue->heap[queue->count];
    for (uint32_t child = 1; child < queue->count; child = 2 * at + 1) {
        child += child + 1 < queue->count && queue->heap[child + 1].key < queue->heap[child].key;
        if (last.key <= queue->heap[child].key)
            break;
        queue->heap[at] = queue->heap[child];
        at = child;
    }
    queue->heap[at] = last;
    return true;
}

static void grow(struct queue *queue)
{
    uint32_t capacity = queue->capacity ? 2 * queue->capacity : FIRST_CAPACITY;

    queue->heap = resize(queue->heap, capacity * sizeof(*queue->heap));
    queue->events = resize(queue->events, capacity * sizeof(*queue->events));
    queue->free_places = resize(queue->free_places, capacity * sizeof(*queue->free_places));
    for (uint32_t i = queue->capacity; i < capacity; i++)
        queue->free_places[i] = i;
    queue->capacity = capacity;
}

static void *resize(void *memory, size_t bytes)
{
    memory = realloc(memory, bytes);
    if (!memory) {
        perror("sim: event queue");
        exit(2);
    }
    return memory;
}
