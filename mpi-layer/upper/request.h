/*
 * request.h - requests of the application.
 *
 * A request is an object of ours; its real twin lives while the library has work to do. All active ones
 * are listed in the order of their creation, so that receives can be posted again in order after a
 * restart. One that the drain has completed stays, done, until the application asks for it.
 *
 * A persistent request is a record of its arguments that becomes an ordinary operation with each start. While
 * it is inactive it is not listed, and it is done with an empty status: what MPI asks of waits and tests.
 */
#ifndef BELAY_MPI_LAYER_UPPER_REQUEST_H
#define BELAY_MPI_LAYER_UPPER_REQUEST_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/half.h"

enum request_kind { REQUEST_NONE = 0, REQUEST_SEND, REQUEST_RECV, REQUEST_COLLECTIVE, REQUEST_GENERALIZED };

enum send_mode { SEND_NONE = 0, SEND_STANDARD, SEND_BUFFERED, SEND_SYNCHRONOUS, SEND_READY };

/* What an ordinary send or receive needs comes first, and is all that it touches. */
struct request {
    void *real;         /* first word, as in every handle; NULL: the library has no part in it (any more) */
    bool is_active;     /* listed */
    bool is_done;       /* completed: status and error are here, real is gone */
    bool is_orphan;     /* the application has freed it: it ends by itself */
    bool is_sync;       /* a synchronous send */
    bool is_held;       /* ... that is done when the receiver says so (ack.h): a drain may have its message */
    bool is_told;       /* ... and the receiver knows of it */
    bool must_raise;    /* its error is ours: the communicator's handler has not been called */
    bool is_to_post;    /* a receive that the next crossing posts */
    uint8_t kind;       /* enum request_kind */
    uint8_t mode;       /* enum send_mode of a persistent send */
    bool is_persistent; /* outlives its completion, until the application frees it */
    bool is_special;    /* one of the members at the end is in use */
    int error;          /* MPI code of a done one */
    int peer, tag;      /* as given (may be MPI_ANY_SOURCE, MPI_ANY_TAG) */
    int count;
    int number; /* its integer in Fortran (fortran/numbers.h) */
    void *buffer;
    MPI_Datatype type; /* retained */
    struct comm *comm;
    struct handle *comm_handle; /* retained */
    MPI_Status status;          /* of a done one */
    struct request *next, *previous;
    /* Special ones set is_special with any of these, which are 0 otherwise. */
    struct sync_key
        *sync_key;        /* a synchronous send (sync.h): those with the same key; NULL: not counted ... */
    uint64_t sync_number; /* ... which of them it is ... */
    uint64_t sync_serial; /* ... and which of all synchronous sends of this rank */
    bool may_be_drained;  /* ... drains may take its message, or have: only the receiver completes it */
    struct request *next_orphan, *previous_orphan; /* one that the application has freed */
    struct handle *op;                             /* of a reduction, retained */
    void *to_free;       /* malloc'ed arrays that the library reads until completion */
    struct handle *made; /* MPI_Comm_idup: gets its real twin on completion */
    void *made_real;
    struct generalized *generalized; /* generalized.h */
    uint64_t buffered_bytes;         /* of a buffered send: what it takes of the attached buffer */
};

/* What it is about. */
static inline void request_describe(struct request *request, const void *buffer, int count, int peer, int tag)
{
    request->buffer = (void *)(uintptr_t)buffer;
    request->count = count;
    request->peer = peer;
    request->tag = tag;
}

static inline struct request *request_of(MPI_Request request)
{
    return (struct request *)(void *)request;
}

static inline bool request_is_null(MPI_Request request)
{
    return request == MPI_REQUEST_NULL;
}

static inline bool request_is_inactive(const struct request *request)
{
    return !request->is_active;
}

/* The status of an inactive request, and of a send that is complete. */
extern const MPI_Status request_empty_status;

/* A new active request (real still NULL), listed last. NULL: out of memory. */
struct request *request_new(enum request_kind kind, MPI_Comm comm, MPI_Datatype type);

/* A new persistent request, inactive. NULL: out of memory. */
struct request *request_new_persistent(enum request_kind kind, MPI_Comm comm, MPI_Datatype type);

/* Start an inactive one: listed last, not done. */
void request_activate(struct request *request);

/*
 * A send that the library completed at once: it gave its shared "empty" request, and so do we. Done, never
 * listed, never deleted.
 */
extern struct request request_sent;

static inline bool request_is_at_once(const void *real)
{
    extern void *request_real_empty; /* NULL if this library has none */
    return real && real == request_real_empty;
}

/* Find the library's empty request, at the start and after a restart. FS base of the lower half. */
void request_bind(void);

/* Deleted ones, for reuse: a program makes millions. */
extern struct request *request_spare;
bool request_reserve_more(void);

/* Make sure that the next request_new() succeeds. False: out of memory. */
static inline bool request_reserve(void)
{
    return LIKELY(request_spare != NULL) || request_reserve_more();
}

/* It is done, with this code: the library has no part in it any more. */
static inline void request_set_done(struct request *request, int error)
{
    request->real = NULL;
    request->is_done = true;
    request->error = error;
    if (LIKELY(request->comm != NULL))
        request->comm->pending--;
}

/* Unlist and forget; what it kept is released. */
void request_delete(struct request *request);

/* Its result is handed over (or it could not be started): a persistent one is inactive now, others go. */
void request_end(struct request *request);

/* Nobody will ask for its result: it ends by itself. */
void request_abandon(struct request *request);

/* First active one; follow next. */
struct request *request_first(void);

/* It goes, if it is abandoned and done. */
void request_reap(struct request *request);

/* An abandoned one is the last of them from here on. */
void request_put_behind(struct request *request);

/* The first abandoned one, NULL: none; follow next_orphan. */
struct request *request_first_orphan(void);

MPI_Request request_new_collective(void *real, MPI_Comm comm);
MPI_Request request_new_collective_owning(void *real, MPI_Comm comm, void *to_free);

/* A reduction: the library may call the operation until it is complete, though both may be freed earlier. */
void request_keep(MPI_Request request, MPI_Datatype type, MPI_Op op);

#endif
