/*
 * comm.h - the MPI layer's record of each communicator.
 *
 * The id is the same on all members and never used twice: a 64-bit hash of the parent's id, the number of
 * the creating call on the parent, and the world rank of the new communicator's rank 0 (which tells apart
 * the groups of one split). No communication is needed to agree on it.
 */
#ifndef BELAY_MPI_LAYER_UPPER_COMM_H
#define BELAY_MPI_LAYER_UPPER_COMM_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/upper/handle.h"
#include "mpi-layer/upper/peer.h"

/*
 * A communicator that the application has freed here. The members tell one another what they have sent
 * on it (a non-blocking collective, so nobody waits); it goes when that is known and nothing is pending.
 */
struct ending {
    void *request;    /* real; NULL when done */
    uint64_t *sent;   /* size entries: to each peer ... */
    uint64_t *coming; /* ... and from each, valid when the request is done */
};

struct comm {
    struct handle *handle; /* back to the application's object */
    uint64_t id;
    uint64_t seq;              /* collectives entered or initiated */
    uint32_t slot;             /* in the control page */
    int rank;                  /* of this process, in its own group */
    int size;                  /* ranks that messages go to: the members, or the remote group's */
    int *world;                /* their world ranks */
    struct peer *peers;        /* size entries */
    int local_size;            /* intercommunicator: the own group's size, else 0 */
    int *local;                /* ... and world ranks, else NULL */
    uint64_t drained;          /* messages that drains have taken, for receives to come (drained.h) */
    uint32_t pending;          /* requests of the application that are not complete */
    struct ending *ending;     /* NULL while it is in use */
    struct topology *topology; /* noted at its first line; NULL: none */
    bool is_incomplete; /* made by an MPI_Comm_idup that has not completed: it carries no messages yet */
    bool is_noted, is_errhandler_noted, are_hints_noted; /* see comm_note_all() */
    bool has_hints;                                      /* the application has given info */
    struct info *hints;                                  /* noted at a line, NULL: none */
    void *errhandler;                                    /* noted at a line: our handle */
    struct comm *next, *previous;                        /* all, in order of creation */
    struct comm *next_ending;                            /* of those that are ending */
    struct table_entry entry;                            /* of comm_by_id() */
    /* In a drain alone: */
    struct comm *next_missing; /* others on which messages are missing (drain.c) */
    void *loud;                /* the real error handler that flight.c has put aside; NULL: none */
};

static inline struct comm *comm_of(MPI_Comm comm)
{
    return comm ? ((struct handle *)(void *)comm)->record : NULL;
}

/* The MPI_COMM_WORLD record; NULL before MPI_Init. */
struct comm *comm_world(void);
struct comm *comm_first(void);
struct comm *comm_by_id(uint64_t id);

/* Records of MPI_COMM_WORLD and MPI_COMM_SELF, after MPI_Init. Returns 0 or -1: out of memory. */
int comm_start(void);

static inline bool comm_is_inter(const struct comm *c)
{
    return c->local_size > 0;
}

/* Make handle and record of a new communicator `real` with a given id. NULL: out of memory. */
MPI_Comm comm_adopt(void *real, uint64_t id);

/* The same for one that is to be made: only its clock is there (size 0, no real twin). comm_fill() it. */
MPI_Comm comm_reserve(uint64_t id);
/* It has been made. Returns 0, or -1: out of memory (comm_unregister() it). */
int comm_fill(struct comm *c, void *real);

/*
 * Make handle and record of a new communicator `real`, inside the collective call on `parent` that made
 * it. Returns the handle, MPI_COMM_NULL for a null one, or NULL: out of memory.
 */
MPI_Comm comm_register(void *real, struct comm *parent);

/* A duplicate of parent that has no real twin yet (MPI_Comm_idup), inside the call. Returns the same. */
MPI_Comm comm_copy(struct comm *parent);

/* It is complete, and `real` is its twin. */
static inline void comm_complete(MPI_Comm comm, void *real)
{
    struct comm *c = comm_of(comm);
    handle_set_real(c->handle, real);
    c->is_incomplete = false;
}

/* World ranks of a real group's members, from the arena; NULL: out of memory. The group is freed. */
int *comm_members(void *group, int size);

/*
 * Take a record out and release the application's handle (requests that are done may keep it longer). It has
 * no drained messages.
 */
void comm_unregister(struct comm *c);

/*
 * The application frees it, inside the collective call: start the exchange of counts. From here on nobody
 * on this rank can send on it, so they are final. Returns the MPI code.
 */
int comm_end(struct comm *c);

/* Free what nobody needs any more (cheap when nothing is ending). */
void comm_reap(void);

/* Drain: move on the exchanges of ending communicators. True if one is not done. */
bool comm_endings_in_flight(void);

/* After a restart: real communicators from the recorded members, in the order of ids. */
void comm_rebuild_all(void);
/* Before parking: topologies, hints and error handlers. False: out of memory. */
bool comm_note_all(void);

/* For acknowledgements of drained synchronous sends: all ranks, counted and drained as the application's. */
MPI_Comm comm_acks(void);

/* Our own communicators in the lower half (real handles): for the drain, for delivery to this rank alone,
 * and for the barrier before MPI_Finalize. */
void *comm_private_world(void);
void *comm_private_self(void);
void *comm_private_end(void);

#endif
