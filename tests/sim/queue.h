/*
 * queue.h - events of the simulation in the order of virtual time; equal times keep the order of pushing.
 */
#ifndef BELAY_TESTS_SIM_QUEUE_H
#define BELAY_TESTS_SIM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct message;

enum event_kind {
    EVENT_NONE = 0,
    EVENT_RANK_STEP,    /* epoch, rank */
    EVENT_DATA,         /* epoch, number: MPI message arrives */
    EVENT_ACK,          /* epoch, number: a synchronous send's acknowledgement arrives; peer: it is counted */
    EVENT_COUNT,        /* epoch, rank, number: a drain's count from `peer`; node: enum counted */
    EVENT_NOTICE,       /* node, rank: its agent looks at the rank's control page */
    EVENT_CAPTURE,      /* node, rank, number: line */
    EVENT_PREPARED,     /* node, number: line */
    EVENT_HELD,         /* node, rank, number: line: the scheme wants no copy of it */
    EVENT_REFILL,       /* node, number: of what its refill waits for */
    EVENT_FOLDED,       /* node, rank: a slot, number: line */
    EVENT_APPLY,        /* node, number: line */
    EVENT_TICK,         /* node: its member's machine wants to be woken */
    EVENT_FENCE,        /* node: its keeper looks whether the agent lives */
    EVENT_WRITTEN,      /* node: the record of its member is on a slow disk; number: of the writing */
    EVENT_CLOSE,        /* node: the program has ended, and the coordinator of `epoch` is told */
    EVENT_STROBE,       /* node: the coordinator's timer */
    EVENT_MESSAGE,      /* message: delivery on a control link */
    EVENT_LINK_BROKEN,  /* node notices that its link to `peer` broke in `epoch` or before */
    EVENT_RANK_GONE,    /* node notices that a rank of its own died */
    EVENT_ARBITER_TICK, /* incarnation: the arbiter's */
    EVENT_WATCH,        /* does anything move? */
    EVENT_FAULT,        /* something breaks (fault.c) */
    EVENT_ARBITER_END,  /* the arbiter has given a node up, and its process ends at last; another one comes */
    EVENT_COMEBACK,     /* node, or the arbiter */
};

struct event {
    uint64_t time_us;
    enum event_kind kind;
    uint32_t node, peer;
    uint32_t rank;
    uint32_t epoch;
    uint32_t incarnation; /* of the agent it is meant for */
    uint64_t number;
    struct message *message; /* owned by the queue, then by who pops it */
};

/* Where an event is, by what orders it: virtual time, and then the number of the push. */
struct queued {
    uint64_t key;
    uint32_t place;
};

struct queue {
    struct queued *heap;
    struct event *events;  /* by place */
    uint32_t *free_places; /* of events that are not queued */
    uint32_t count, capacity;
    uint32_t pushed;
};

void queue_destroy(struct queue *queue);
/* Drop all events and their messages. */
void queue_clear(struct queue *queue);
/* Ends the program when there is no memory. */
void queue_push(struct queue *queue, const struct event *event);
/* False if there is none. */
bool queue_pop(struct queue *queue, struct event *event);

#endif
