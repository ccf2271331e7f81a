/* request.c - see request.h. */
#include "mpi-layer/upper/request.h"

#include <stdlib.h>
#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/ack.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/deliver.h"

static struct request *first, *last; /* active ones, oldest first */
static struct request *spare;        /* deleted ones, for reuse: a program makes millions */
static uint32_t orphans;

struct request request_sent = {
    .kind = REQUEST_SEND, .is_done = true, .status = {.MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG}};
void *request_real_empty;

void request_bind(void)
{
    request_real_empty = GATE->symbol("ompi_request_empty");
}

bool request_reserve(void)
{
    if (LIKELY(spare != NULL))
        return true;
    spare = arena_alloc(sizeof *spare);
    return spare != NULL;
}

struct request *request_first(void)
{
    return first;
}

struct request *request_new(enum request_kind kind, MPI_Comm comm, MPI_Datatype type)
{
    struct request *request = spare;
    if (LIKELY(request != NULL))
        spare = request->next;
    else if (!(request = arena_alloc(sizeof *request)))
        return NULL;
    request->real = NULL;
    request->kind = kind;
    request->is_done = request->is_orphan = request->is_sync = request->is_held =
        request->must_raise = false;
    request->error = MPI_SUCCESS;
    request->to_free = NULL;
    request->made = NULL;
    request->type = type;
    request->comm = comm_of(comm);
    request->comm_handle = (struct handle *)(void *)comm;
    if (LIKELY(request->comm != NULL))
        request->comm->pending++;
    handle_retain(type);
    handle_retain(comm);
    request->next = NULL;
    request->previous = last;
    *(last ? &last->next : &first) = request;
    last = request;
    return request;
}

void request_delete(struct request *request)
{
    if (request == &request_sent)
        return;
    if (UNLIKELY(!request->is_done) && request->comm) /* never started */
        request->comm->pending--;
    *(request->previous ? &request->previous->next : &first) = request->next;
    *(request->next ? &request->next->previous : &last) = request->previous;
    handle_unref_quick(request->type);
    handle_unref_quick(request->comm_handle);
    if (UNLIKELY(request->to_free != NULL))
        free(request->to_free);
    request->next = spare;
    spare = request;
}

static inline void set_done(struct request *request, int error)
{
    request->real = NULL;
    request->is_done = true;
    request->error = error;
    if (LIKELY(request->comm != NULL))
        request->comm->pending--;
}

void request_complete(struct request *request, const MPI_Status *status, int error)
{
    set_done(request, error);
    if (status != &request->status)
        request->status = *status;
    if (UNLIKELY(request->made != NULL))
        request->made->real = request->made_real;
    if (UNLIKELY(request->is_sync) && request->comm)
        request->comm->peers[request->peer].pending_sync--;
    if (request->kind == REQUEST_RECV && status->MPI_SOURCE >= 0 && request->comm)
        request->comm->peers[status->MPI_SOURCE].received++;
}

void request_complete_drained(struct request *request, struct message *message)
{
    int error =
        deliver(request->comm, message, request->buffer, request->count, request->type, &request->status);
    set_done(request, error);
    request->must_raise = error != MPI_SUCCESS;
}

void request_reap_orphans(void)
{
    if (LIKELY(!orphans))
        return;
    struct request *next;
    for (struct request *r = first; r; r = next) {
        MPI_Status status;
        int flag = 0;
        next = r->next;
        if (!r->is_orphan)
            continue;
        if (r->is_held)
            ack_poll();
        else if (!r->is_done && lower_MPI_Test(&r->real, &flag, &status) == MPI_SUCCESS && flag)
            request_complete(r, &status, MPI_SUCCESS);
        if (r->is_done) {
            request_delete(r);
            orphans--;
        }
    }
}

MPI_Request request_new_collective_owning(void *real, MPI_Comm comm, void *to_free)
{
    struct request *request = request_new(REQUEST_COLLECTIVE, comm, NULL);
    if (!request)
        return MPI_REQUEST_NULL;
    request->real = real;
    request->to_free = to_free;
    return (MPI_Request)(void *)request;
}

MPI_Request request_new_collective(void *real, MPI_Comm comm)
{
    return request_new_collective_owning(real, comm, NULL);
}

/*
 * The application gives an active request up; its communication goes on. It becomes ours and is ended
 * when it is done.
 */
int PMPI_Request_free(MPI_Request *request)
{
    wrapper_enter();
    if (request_of(*request) == &request_sent) {
        *request = MPI_REQUEST_NULL;
    } else if (!request_is_null(*request)) {
        request_of(*request)->is_orphan = true;
        orphans++;
        *request = MPI_REQUEST_NULL;
        request_reap_orphans();
    }
    wrapper_leave();
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Request_free);
