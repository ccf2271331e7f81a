/*
 * request.h - requests of the application.
 *
 * A request is an object of ours; its real twin lives while the library has work to do. All active ones
 * are listed in the order of their creation, so that receives can be posted again in order after a
 * restart. One that the drain has completed stays, done, until the application asks for it.
 */
#ifndef BELAY_MPI_LAYER_UPPER_REQUEST_H
#define BELAY_MPI_LAYER_UPPER_REQUEST_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "mpi-layer/upper/comm.h"

enum request_kind { REQUEST_NONE = 0, REQUEST_SEND, REQUEST_RECV, REQUEST_COLLECTIVE };

struct request {
    void *real; /* first word, as in every handle */
    uint32_t kind;
    bool is_done;    /* completed: status and error are here, real is gone */
    bool is_orphan;  /* the application has freed it: it ends by itself */
    bool is_sync;    /* a synchronous send */
    bool is_held;    /* ... whose message a drain has taken: done when the receiver says so (ack.h) */
    bool must_raise; /* its error is ours: the communicator's handler has not been called */
    uint32_t later;  /* ... sends with the same communicator, peer and tag since */
    int error;       /* MPI code of a done one */
    int peer, tag;   /* as given (may be MPI_ANY_SOURCE, MPI_ANY_TAG) */
    int count;
    void *buffer;
    MPI_Datatype type; /* retained */
    struct comm *comm;
    struct handle *comm_handle; /* retained */
    void *to_free;     /* malloc'ed arrays that the library reads until completion, or NULL */
    struct handle *made; /* MPI_Comm_idup: gets its real twin on completion, else NULL */
    void *made_real;
    MPI_Status status; /* of a done one */
    struct request *next, *previous;
};

static inline struct request *request_of(MPI_Request request)
{
    return (struct request *)(void *)request;
}

static inline bool request_is_null(MPI_Request request)
{
    return request == MPI_REQUEST_NULL;
}

/* A new active request (real still NULL), listed last. NULL: out of memory. */
struct request *request_new(enum request_kind kind, MPI_Comm comm, MPI_Datatype type);

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

/* Make sure that the next request_new() succeeds. False: out of memory. */
bool request_reserve(void);

/* Unlist and forget; what it kept is released. */
void request_delete(struct request *request);

/*
 * The library has completed it with this status and code: count a received message, keep the result.
 * Afterwards it is_done and real is the null request.
 */
void request_complete(struct request *request, const MPI_Status *status, int error);

/* A receive that has got a drained message: done without the library. */
void request_complete_drained(struct request *request, struct message *message);

/* First active one; follow next. */
struct request *request_first(void);

/* End orphans that are done, and test those that are not. */
void request_reap_orphans(void);

MPI_Request request_new_collective(void *real, MPI_Comm comm);
MPI_Request request_new_collective_owning(void *real, MPI_Comm comm, void *to_free);

#endif
