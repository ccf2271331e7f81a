#include "tests/sim/queue.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_before(const struct event *a, const struct event *b)
{
    return a->time_us != b->time_us ? a->time_us < b->time_us : a->order < b->order;
}

void queue_destroy(struct queue *queue)
{
    queue_clear(queue);
    free(queue->heap);
    *queue = (struct queue){0};
}

void queue_clear(struct queue *queue)
{
    for (size_t i = 0; i < queue->count; i++)
        free(queue->heap[i].message);
    queue->count = 0;
    queue->pushed = 0;
}

void queue_push(struct queue *queue, struct event event)
{
    size_t at = queue->count++;

    if (queue->count > queue->capacity) {
        queue->capacity = queue->capacity ? 2 * queue->capacity : 1024;
        queue->heap = realloc(queue->heap, queue->capacity * sizeof(*queue->heap));
        if (!queue->heap) {
            perror("sim: event queue");
            exit(2);
        }
    }
    event.order = queue->pushed++;
    for (; at > 0 && is_before(&event, &queue->heap[(at - 1) / 2]); at = (at - 1) / 2)
        queue->heap[at] = queue->heap[(at - 1) / 2];
    queue->heap[at] = event;
}

bool queue_pop(struct queue *queue, struct event *event)
{
    struct event last;
    size_t at = 0;

    if (queue->count == 0)
        return false;
    *event = queue->heap[0];
    last = queue->heap[--queue->count];
    for (size_t child = 1; child < queue->count; child = 2 * at + 1) {
        if (child + 1 < queue->count && is_before(&queue->heap[child + 1], &queue->heap[child]))
            child++;
        if (!is_before(&queue->heap[child], &last))
            break;
        queue->heap[at] = queue->heap[child];
        at = child;
    }
    queue->heap[at] = last;
    return true;
}
