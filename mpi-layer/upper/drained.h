/*
 * drained.h - messages that drains have taken from the library, until receives of the application match them.
 *
 * Each message stands in four queues, oldest first: of its source and tag, of its source, of its tag, and of
 * its communicator. So whatever wildcards a receive has, what it matches is at the head of one queue, which
 * is found by a hash table. Memory is the arena's: a drain may have interrupted the application in malloc.
 */
#ifndef BELAY_MPI_LAYER_UPPER_DRAINED_H
#define BELAY_MPI_LAYER_UPPER_DRAINED_H

#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/upper/comm.h"

#define DRAINED_QUEUES 4

struct queue;

struct message {
    struct queue *queues[DRAINED_QUEUES];
    struct message *next[DRAINED_QUEUES], *previous[DRAINED_QUEUES]; /* in each of them */
    struct comm *comm;
    int source, tag; /* source: rank in the communicator */
    uint64_t bytes;
    int error;    /* MPI code of the library's receive: the application's receive returns it */
    uint64_t ack; /* of a synchronous send: the sender's request, which waits for this receive; else 0 ... */
    uint64_t ack_serial; /* ... and that request's serial */
    char *data;          /* behind this struct, or of its own once the memory was there for it */
    void *real; /* the matched message in the library, if there was no memory for its data; else NULL */
};

/* A message outside of all queues. NULL: out of memory. To be given to drained_free(). */
struct message *drained_new(struct comm *comm, int source, int tag, uint64_t bytes);
void drained_free(struct message *message);

/* Prepare drained_add(), which then cannot fail. Returns 0, or -1: out of memory (drained_free() it). */
int drained_reserve(struct message *message);
void drained_add(struct message *message);

/* The oldest message that matches (MPI_ANY_SOURCE and MPI_ANY_TAG allowed); NULL if none. */
struct message *drained_find(const struct comm *comm, int source, int tag);

/* Take a message out of its queues: the caller owns it. */
void drained_take(struct message *message);

/*
 * Of the messages with this source and tag, the one that `later` others have come after; NULL: there are not
 * so many. Asked for one after the other, later and later ones are found without beginning anew.
 */
struct message *drained_before(const struct comm *comm, int source, int tag, uint64_t later);

/*
 * Receive the data of messages that the library has still. Returns 0, or -1: one of *bytes cannot be
 * received, as there is no memory. has_memory false: do not try.
 */
int drained_complete(bool has_memory, uint64_t *bytes);

/* The same of one message, which is in no queue. Returns 0 or -1. */
int drained_complete_taken(struct message *message);

/* All messages of a communicator go. */
void drained_drop(struct comm *comm);

#endif
