/* request.c - see request.h. */
#include "mpi-layer/upper/request.h"

#include <stdlib.h>
#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/fortran/numbers.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/buffer_room.h"
#include "mpi-layer/upper/generalized.h"

#define EMPTY_STATUS                                                                                         \
    {                                                                                                        \
        .MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG, .MPI_ERROR = MPI_SUCCESS                       \
    }

static struct request *first, *last;               /* active ones, oldest first */
static struct request *first_orphan, *last_orphan; /* looked at in this order */

const MPI_Status request_empty_status = EMPTY_STATUS;
struct request request_sent = {
    .kind = REQUEST_SEND, .is_active = true, .is_done = true, .status = EMPTY_STATUS};
void *request_real_empty;
struct request *request_spare;

void request_bind(void)
{
    request_real_empty = GATE->symbol("ompi_request_empty");
}

bool request_reserve_more(void)
{
    request_spare = arena_alloc(sizeof *request_spare);
    return request_spare != NULL;
}

struct request *request_first(void)
{
    return first;
}

static inline struct request *new_record(enum request_kind kind, MPI_Comm comm, MPI_Datatype type)
{
    struct request *request = request_spare;
    if (LIKELY(request != NULL))
        request_spare = request->next;
    else if (!(request = arena_alloc(sizeof *request)))
        return NULL;
    request->kind = (uint8_t)kind;
    request->mode = SEND_NONE;
    request->is_active = request->is_persistent = request->is_special = false;
    request->type = type;
    request->comm = comm_of(comm);
    request->comm_handle = (struct handle *)(void *)comm;
    handle_retain(type);
    handle_retain(comm);
    return request;
}

static inline void activate(struct request *request)
{
    request->real = NULL;
    request->is_active = true;
    request->is_done = request->is_orphan = request->is_sync = request->is_held = request->is_told =
        request->must_raise = request->is_to_post = false;
    request->error = MPI_SUCCESS;
    if (LIKELY(request->comm != NULL))
        request->comm->pending++;
    request->next = NULL;
    request->previous = last;
    *(last ? &last->next : &first) = request;
    last = request;
}

static inline void deactivate(struct request *request)
{
    if (UNLIKELY(!request->is_done) && request->comm) /* never started */
        request->comm->pending--;
    *(request->previous ? &request->previous->next : &first) = request->next;
    *(request->next ? &request->next->previous : &last) = request->previous;
    request->is_active = false;
}

struct request *request_new(enum request_kind kind, MPI_Comm comm, MPI_Datatype type)
{
    struct request *request = new_record(kind, comm, type);
    if (LIKELY(request != NULL))
        activate(request);
    return request;
}

/* As an inactive one looks to waits and tests. */
static void set_inactive(struct request *request)
{
    request->is_done = true;
    request->must_raise = false;
    request->error = MPI_SUCCESS;
    request->status = request_empty_status;
}

struct request *request_new_persistent(enum request_kind kind, MPI_Comm comm, MPI_Datatype type)
{
    struct request *request = new_record(kind, comm, type);
    if (!request)
        return NULL;
    request->is_persistent = true;
    set_inactive(request);
    return request;
}

void request_activate(struct request *request)
{
    activate(request);
}

static void release_special(struct request *request)
{
    struct generalized *generalized = request->generalized;
    request->generalized = NULL;
    handle_unref_quick(request->op);
    free(request->to_free);
    if (request->buffered_bytes)
        buffer_room_release(request->buffered_bytes);
    if (generalized)
        generalized_end(generalized);
    request->sync_key = NULL;
    request->op = request->made = NULL;
    request->to_free = request->made_real = NULL;
    request->buffered_bytes = 0;
}

void request_delete(struct request *request)
{
    if (request == &request_sent)
        return;
    if (LIKELY(request->is_active))
        deactivate(request);
    handle_unref_quick(request->type);
    handle_unref_quick(request->comm_handle);
    if (UNLIKELY(request->is_special))
        release_special(request);
    if (UNLIKELY(request->number)) {
        numbers_drop(HANDLE_REQUEST, request->number);
        request->number = 0;
    }
    request->next = request_spare;
    request_spare = request;
}

void request_end(struct request *request)
{
    if (LIKELY(!request->is_persistent)) {
        request_delete(request);
    } else if (request->is_active) {
        deactivate(request);
        set_inactive(request);
    }
}

struct request *request_first_orphan(void)
{
    return first_orphan;
}

static void link_orphan(struct request *request)
{
    request->next_orphan = NULL;
    request->previous_orphan = last_orphan;
    *(last_orphan ? &last_orphan->next_orphan : &first_orphan) = request;
    last_orphan = request;
}

static void unlink_orphan(struct request *r)
{
    *(r->previous_orphan ? &r->previous_orphan->next_orphan : &first_orphan) = r->next_orphan;
    *(r->next_orphan ? &r->next_orphan->previous_orphan : &last_orphan) = r->previous_orphan;
}

void request_abandon(struct request *request)
{
    request->is_orphan = true;
    link_orphan(request);
}

void request_put_behind(struct request *r)
{
    unlink_orphan(r);
    link_orphan(r);
}

void request_reap(struct request *r)
{
    if (!r->is_orphan || !r->is_done)
        return;
    unlink_orphan(r);
    request_delete(r);
}

MPI_Request request_new_collective_owning(void *real, MPI_Comm comm, void *to_free)
{
    struct request *request = request_new(REQUEST_COLLECTIVE, comm, NULL);
    if (!request)
        return MPI_REQUEST_NULL;
    request->real = real;
    request->to_free = to_free;
    request->is_special = to_free != NULL;
    return (MPI_Request)(void *)request;
}

MPI_Request request_new_collective(void *real, MPI_Comm comm)
{
    return request_new_collective_owning(real, comm, NULL);
}

void request_keep(MPI_Request request, MPI_Datatype type, MPI_Op op)
{
    struct request *r = request_of(request);
    if (request_is_null(request)) /* there was no memory for it */
        return;
    handle_retain(type);
    handle_retain(op);
    r->type = type;
    r->op = (struct handle *)(void *)op;
    r->is_special = true;
}
